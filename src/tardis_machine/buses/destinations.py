"""Names of destinations as settings give them: a base, routes per payload case, a template."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.keys import NAME, VERBATIM, NameRule, Template, compile_template
from tardis_machine.bronze.routing import Router, parse_routing
from tardis_machine.model.errors import SettingsError

_SAMPLE = "x"


@dataclass(frozen=True, kw_only=True)
class Destinations:
    """Destinations of one bus, from settings to a router; every problem names its option."""

    bus: str
    noun: str
    """What the bus calls a destination: topic, stream, subject. Names the options too."""
    base: str | None
    pattern: re.Pattern[str]
    """What a whole name must match."""
    routing: Mapping[str, str] | None = None
    template: str | None = None
    key: str | None = None
    name_rule: NameRule = NAME
    key_rule: NameRule = VERBATIM
    base_option: str = ""
    """Option of the base, where it is not the noun: `event-hub-name`."""
    routing_option: str = ""
    template_option: str = ""
    key_option: str = "key-template"

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with names, routes and templates."""
        if self.base is not None:
            yield from self._name_problems(self.base, self._base_option)
        for option, text, rule in self._templates():
            template, found = _compiled(text, option, rule)
            yield from found
            if template and rule is self.name_rule:
                yield from self._name_problems(template.filled(_SAMPLE), option)
        yield from self._routing_problems()

    def router(self, cases: Collection[PayloadCase]) -> Router:
        """Return the router of these settings, which must have no problems."""
        template = self.template and compile_template(
            self.template, self._template_option, self.name_rule
        )
        key = self.key and compile_template(self.key, self._named(self.key_option), self.key_rule)
        return Router(
            self.base or "",
            template=template or None,
            routing=self._routes(),
            key=key or None,
            cases=cases,
        )

    def texts(self) -> list[str]:
        """Return every destination as written, templates included."""
        routes = (self.routing or {}).values()
        return [text for text in (self.base, self.template, *routes) if text]

    def _routes(self) -> dict[PayloadCase, Template]:
        if self.routing is None:
            return {}
        return parse_routing(self.routing, self._routing_option, self.noun, self.name_rule)

    def _routing_problems(self) -> Iterable[str]:
        try:
            routes = self._routes()
        except SettingsError as error:
            yield from error.problems
            return
        for template in routes.values():
            yield from self._name_problems(template.filled(_SAMPLE), self._routing_option)

    def _name_problems(self, name: str, option: str) -> Iterable[str]:
        if not self.pattern.fullmatch(name) or name in (".", ".."):
            rule = self.pattern.pattern
            yield f'{option}: "{name}" is not a valid {self.noun} name: it must match {rule}.'

    def _templates(self) -> Iterable[tuple[str, str, NameRule]]:
        if self.template is not None:
            yield self._template_option, self.template, self.name_rule
        if self.key is not None:
            yield self._named(self.key_option), self.key, self.key_rule

    @property
    def _base_option(self) -> str:
        return self._named(self.base_option or self.noun)

    @property
    def _routing_option(self) -> str:
        return self._named(self.routing_option or f"{self.noun}-routing")

    @property
    def _template_option(self) -> str:
        return self._named(self.template_option or f"{self.noun}-template")

    def _named(self, option: str) -> str:
        return f"{self.bus}-{option}"


def _compiled(text: str, option: str, rule: NameRule) -> tuple[Template | None, tuple[str, ...]]:
    try:
        return compile_template(text, option, rule), ()
    except SettingsError as error:
        return None, error.problems

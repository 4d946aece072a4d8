"""Which events go to a bus, where to, and under which key."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from tardis_machine.bronze.cases import (
    NewerCase,
    PayloadCase,
    find_case,
    parse_cases,
    unknown_cases_text,
)
from tardis_machine.bronze.keys import NAME, NameRule, Template, compile_template
from tardis_machine.bronze.series import PerSeries, Series
from tardis_machine.model.errors import SettingsError

ALL_CASES = frozenset(PayloadCase)


class Route(msgspec.Struct, frozen=True, gc=False):
    """Where the events of one series go."""

    destination: str
    key: str
    """Ordering or partition key; empty for buses without one."""


class Router:
    """Finds the route of each series once.

    The destination comes from the routing entry of the payload case, else from the template, else
    it is the base destination.
    """

    def __init__(
        self,
        base: str,
        *,
        template: Template | None = None,
        routing: Mapping[PayloadCase, Template] | None = None,
        key: Template | None = None,
        cases: Collection[PayloadCase] = ALL_CASES,
    ) -> None:
        self._base = base
        self._template = template
        self._routing = routing or {}
        self._key = key
        self._cases = cases
        self.routes: PerSeries[Route | None] = PerSeries(self._find)

    def route(self, series: Series) -> Route | None:
        """Return where events of a series go; None when the bus does not take them."""
        return self.routes[series]

    def _find(self, series: Series) -> Route | None:
        if isinstance(series.case, NewerCase) or series.case not in self._cases:
            return None
        template = self._routing.get(series.case, self._template)
        destination = self._base if template is None else template.render(series)
        return Route(destination, "" if self._key is None else self._key.render(series))


def allowed_cases(
    include: Iterable[str], exclude: Iterable[str], bus: str
) -> frozenset[PayloadCase]:
    """Read the allow and deny lists of a bus; an empty allow list allows everything."""
    problems: list[str] = []
    included = _parse_cases(include, f"{bus}-include-payloads", problems)
    excluded = _parse_cases(exclude, f"{bus}-exclude-payloads", problems)
    if both := [case.camel for case in PayloadCase if case in included & excluded]:
        problems.append(
            f"{bus}-include-payloads and {bus}-exclude-payloads both name {', '.join(both)}."
        )
    if problems:
        raise SettingsError(*problems)
    return (included or ALL_CASES) - excluded


def _parse_cases(names: Iterable[str], option: str, problems: list[str]) -> frozenset[PayloadCase]:
    try:
        return parse_cases(names, option)
    except SettingsError as error:
        problems.extend(error.problems)
        return frozenset()


def parse_routing(
    value: str | Mapping[str, str], option: str, noun: str, rule: NameRule = NAME
) -> dict[PayloadCase, Template]:
    """Read `payloadCase:destination` entries; `noun` is what the bus calls a destination.

    Text is comma separated, or a JSON object or list. A destination may be a template.
    """
    problems: list[str] = []
    entries = _entries(value, option, problems)
    if not entries and not problems:
        problems.append(f"{option} must define at least one mapping.")
    pairs = [_halves(entry) for entry in entries]
    problems += [
        f'Invalid {option} entry "{entry}". Expected payloadCase:{noun}.'
        for entry, pair in zip(entries, pairs, strict=True)
        if not all(pair)
    ]
    complete = [pair for pair in pairs if all(pair)]
    problems += _case_problems([name for name, _ in complete], option)
    templates = [_compile(destination, option, rule, problems) for _, destination in complete]
    if problems:
        raise SettingsError(*problems)
    cases = [find_case(name) for name, _ in complete]
    return {case: made for case, made in zip(cases, templates, strict=True) if case and made}


def _entries(value: str | Mapping[str, str], option: str, problems: list[str]) -> list[str]:
    """Return the single entries of a setting, however it was written."""
    decoded: Mapping[str, str] | list[str]
    if not isinstance(value, str):
        decoded = value
    elif value.strip().startswith(("{", "[")):
        try:
            decoded = msgspec.json.decode(value, type=dict[str, str] | list[str])
        except msgspec.DecodeError as error:
            problems.append(f"{option} is not a JSON object or list of texts: {error}.")
            return []
    else:
        decoded = value.split(",")
    if isinstance(decoded, Mapping):
        return [f"{name}:{destination}" for name, destination in decoded.items()]
    return [entry.strip() for entry in decoded if entry.strip()]


def _halves(entry: str) -> tuple[str, str]:
    name, _, destination = entry.partition(":")
    return name.strip(), destination.strip()


def _case_problems(names: Collection[str], option: str) -> list[str]:
    """Say which names are unknown and which cases are named more than once."""
    problems = []
    found = [(name, find_case(name)) for name in names]
    if unknown := [name for name, case in found if case is None]:
        problems.append(unknown_cases_text(unknown, option))
    counts = Counter(case.camel for _, case in found if case is not None)
    if repeated := [name for name, count in counts.items() if count > 1]:
        problems.append(f"Duplicate payload case(s) for {option}: {', '.join(repeated)}.")
    return problems


def _compile(text: str, option: str, rule: NameRule, problems: list[str]) -> Template | None:
    try:
        return compile_template(text, option, rule)
    except SettingsError as error:
        problems.extend(error.problems)
        return None

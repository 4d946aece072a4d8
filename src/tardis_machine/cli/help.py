"""Help text, derived from the declarations."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from tardis_machine.app.settings.options import Option, choices_of, options_of
from tardis_machine.cli.commands import Command

PROGRAM = "tardis-machine"
_WIDTH = 100
_COLUMN = 34
_SHORT = """\
These are the usual options. --help-all prints all of them."""
_OVERRIDES = """\
Delivery options can be set for one bus alone, by variable or in the TOML file: what is
--{shared} for all buses is {env} or {key} for one."""
_EPILOG = """\
Every option can also be set by an environment variable, in upper case with the prefix TM_
(--cache-dir: TM_CACHE_DIR, --api-key: TM_API_KEY), or in a TOML file (--config), in snake case.
Flags override environment variables, which override the file. Secrets can be read from files
(--api-key-file)."""


def help_text(command: Command, commands: Sequence[Command], *, is_complete: bool) -> str:
    """Describe a command: usage, options in groups with their defaults, where values come from."""
    options = options_of(command.settings)
    shown = [option for option in options if is_complete or option.is_usual]
    is_default = command is commands[0]
    sections = [_usage(command, options, is_default=is_default), command.summary]
    if is_default:
        lines = (_line(entry.name, entry.summary) for entry in commands)
        sections.append("\n".join(["Commands:", *lines]))
    if arguments := [option for option in options if option.declared.is_argument]:
        sections.append("\n".join(["Arguments:", *map(_argument_line, arguments)]))
    sections.extend(_option_sections([option for option in shown if option.flags]))
    return "\n\n".join([*sections, *_notes(options, shown), _EPILOG])


def metavar(option: Option) -> str:
    """Return what stands for the value of an option, such as `<path>`."""
    if option.declared.metavar:
        return f"<{option.declared.metavar}>"
    if choices := choices_of(option.annotation):
        return f"<{'|'.join(choices)}>"
    if option.is_secret:
        return "<secret>"
    if option.field.endswith("_bytes"):
        return "<size>"
    if option.is_list:
        return "<text,…>"
    if option.is_map:
        return "<key:value,…>"
    names = {int: "number", float: "number", Path: "path", bool: "true|false"}
    return f"<{names.get(option.annotation, 'text')}>"


def shown_default(option: Option) -> str:
    """Return the default as documents show it; empty where there is none."""
    if option.declared.shown_default is not None:
        return option.declared.shown_default
    if option.is_required:
        return "required"
    default = option.default
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if option.field.endswith("_bytes") and default:
        return _size(default)
    return "" if default is None or default == {} else str(default)


def meaning(option: Option) -> str:
    """Return the help of an option, with the common variable that it falls back to."""
    fallback = option.declared.fallback_env
    return option.declared.help + (f" Falls back to {fallback}." if fallback else "")


def _size(count: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count % factor == 0:
            return f"{count // factor} {unit}"
    return str(count)


def _usage(command: Command, options: Iterable[Option], *, is_default: bool) -> str:
    arguments = "".join(f" [{option.field}]" for option in options if option.declared.is_argument)
    if is_default:
        return f"Usage: {PROGRAM} [options]\n       {PROGRAM} <command> [options]"
    return f"Usage: {PROGRAM} {command.name} [options]{arguments}"


def _option_sections(options: Iterable[Option]) -> Iterable[str]:
    general = [
        _line("-h, --help", "Print the usual options."),
        _line("--help-all", "Print all options."),
        _line("-v, --version", "Print the version."),
    ]
    own = [option for option in options if len(option.path) == 1]
    yield "\n".join(["Options:", *map(_option_line, own), *general])
    grouped = [option for option in options if len(option.path) > 1]
    for _, members in groupby(grouped, key=lambda option: option.path[:-1]):
        entries = sorted(members, key=_rank)
        yield "\n".join([_heading(entries[0].group), *map(_option_line, entries)])


def _notes(options: Sequence[Option], shown: Sequence[Option]) -> Iterable[str]:
    if len(shown) < len(options):
        yield _SHORT
    elif own := next((option for option in options if option.declared.overrides), None):
        yield _OVERRIDES.format(shared=own.declared.overrides, key=own.key, env=own.env)


def _rank(option: Option) -> int:
    """Return the place of an option in its group: the usual ones first, in their order."""
    usual = getattr(option.group, "usual", (option.field,))
    return usual.index(option.field) if option.field in usual else len(usual)


def _heading(settings: type) -> str:
    return (settings.__doc__ or settings.__name__).splitlines()[0].rstrip(".") + ":"


def _option_line(option: Option) -> str:
    value = "" if option.is_flag else f" {metavar(option)}"
    default = "" if option.is_flag else shown_default(option)
    text = meaning(option) + (f" [{default}]" if default else "")
    return _line(f"{', '.join(option.flags)}{value}", text)


def _argument_line(option: Option) -> str:
    return _line(option.field, option.declared.help)


def _line(name: str, text: str) -> str:
    indent = " " * _COLUMN
    lead = f"  {name}".ljust(_COLUMN)
    if not lead.endswith(" "):
        wrapped = textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
        return f"{lead}\n{wrapped}"
    return textwrap.fill(
        text, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False
    )

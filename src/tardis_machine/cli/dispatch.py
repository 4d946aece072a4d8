"""What happens around every command: find it, load its settings, run it, report what failed."""

import os
import sys
from collections.abc import Mapping, Sequence

from tardis_machine.app.settings.command_line import read_command_line
from tardis_machine.app.settings.loading import load_settings
from tardis_machine.app.settings.options import KnownNames, Vocabulary, options_of
from tardis_machine.cli.commands import COMMANDS, DEFAULT_COMMAND, Command, ExitCode
from tardis_machine.cli.help import help_text
from tardis_machine.cli.output import discard_output
from tardis_machine.model.errors import (
    RequestError,
    SettingsError,
    TardisMachineError,
    nearest_hint,
)
from tardis_machine.telemetry.logs import configure_logs
from tardis_machine.version import __version__


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _run(words, os.environ if environ is None else environ)
    except (SettingsError, RequestError) as exc:
        return _fail(str(exc), ExitCode.USAGE)
    except TardisMachineError as exc:
        return _fail(str(exc), ExitCode.FAILURE)
    except KeyboardInterrupt:
        return _fail("Interrupted.", ExitCode.FAILURE)
    except BrokenPipeError:
        # The reader of a pipe has left.
        discard_output()
        return ExitCode.FAILURE


def _run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    if list(words) in (["--version"], ["-v"]):
        # It loads no settings, unlike `--version` among other options, which are checked.
        print(__version__)
        return ExitCode.OK
    command, rest = find_command(words)
    line = read_command_line(rest, Vocabulary(options_of(command.settings)))
    if not line.problems and (line.wants_help or line.wants_all_help):
        print(help_text(command, COMMANDS, is_complete=line.wants_all_help))
        return ExitCode.OK
    if not line.problems and line.wants_version:
        print(__version__)
        return ExitCode.OK
    loaded = load_settings(command.settings, rest, environ, known_names())
    configure_logs(loaded.settings.logs)
    return command.run(loaded.settings)


def find_command(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Split a command line into its command and the rest; flags alone mean the server."""
    if not words or words[0].startswith("-"):
        return DEFAULT_COMMAND, words
    for count in (2, 1):
        name = " ".join(words[:count])
        for command in COMMANDS:
            if command.name == name:
                return command, words[count:]
    names = [command.name for command in COMMANDS]
    raise SettingsError(
        f"Unknown command '{words[0]}'.{nearest_hint(words[0], names)} Valid: {', '.join(names)}."
    )


def known_names() -> KnownNames:
    """Return the names that are valid for any command."""
    return KnownNames(lambda: (command.settings for command in COMMANDS))


def _fail(text: str, code: ExitCode) -> int:
    print(text, file=sys.stderr)
    return code

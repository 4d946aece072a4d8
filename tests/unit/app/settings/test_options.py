from dataclasses import dataclass

import pytest

from tardis_machine.app.settings.options import KnownNames, Vocabulary, options_of, snake_case
from tardis_machine.model.settings import Secret, group, option


@dataclass(frozen=True, kw_only=True)
class Bus:
    """A bus."""

    topic: str | None = option(None, "Where to.", aliases=("topic_name",))
    password: Secret | None = option(None, "Password.")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one command does."""

    out: str = option("here", "Folder.")


@dataclass(frozen=True, kw_only=True)
class Root:
    """All."""

    port: int = option(8000, "Port.")
    bus: Bus = group(Bus, "event-hubs")
    job: Job = group(Job, "simulate", flag_prefix="")


def test_prefix_leads_flag_variable_and_key() -> None:
    topic = next(o for o in options_of(Root) if o.field == "topic")
    assert (topic.name, topic.env, topic.key) == (
        "event-hubs-topic",
        "TM_EVENT_HUBS_TOPIC",
        "event_hubs.topic",
    )


def test_flag_prefix_leaves_the_variable_prefixed() -> None:
    out = next(o for o in options_of(Root) if o.field == "out")
    assert (out.name, out.env, out.key) == ("out", "TM_SIMULATE_OUT", "simulate.out")


def test_vocabulary_holds_aliases_and_file_variants() -> None:
    flags = Vocabulary(options_of(Root)).flags
    assert flags["--event-hubs-topic-name"].option.field == "topic"
    assert flags["--event-hubs-password-file"].is_file
    assert "--port-file" not in flags


def test_two_options_with_one_name_are_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Clash:
        one: Job = group(Job)
        two: Job = group(Job)

    with pytest.raises(ValueError, match="'--out' names both"):
        Vocabulary(options_of(Clash))


def test_known_names_unite_commands() -> None:
    known = KnownNames(lambda: [Root, Job])
    assert {"TM_PORT", "TM_OUT"} <= known.variables
    assert known.tables == {"event_hubs", "simulate"}


@pytest.mark.parametrize("key", ["eventHubs", "event-hubs", "event_hubs"])
def test_keys_are_read_in_any_case(key: str) -> None:
    assert snake_case(key) == "event_hubs"

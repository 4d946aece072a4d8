"""Error replies and what they mean."""

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError, TimeoutError

from tardis_machine.buses.redis.errors import cut_off, not_connected, refusal
from tardis_machine.buses.results import Outcome


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("OOM command not allowed", Outcome.TRANSIENT, "out_of_memory"),
        ("LOADING Redis is loading", Outcome.TRANSIENT, "loading"),
        ("BUSY Redis is busy", Outcome.TRANSIENT, "busy"),
        ("MISCONF cannot write to disk", Outcome.TRANSIENT, "cannot_persist"),
        ("READONLY You can't write", Outcome.TRANSIENT, "read_only"),
        ("NOREPLICAS Not enough", Outcome.TRANSIENT, "too_few_replicas"),
        ("MASTERDOWN Link is down", Outcome.TRANSIENT, "master_down"),
        ("CLUSTERDOWN Hash slot not served", Outcome.TRANSIENT, "cluster_down"),
        ("TRYAGAIN Multiple keys", Outcome.TRANSIENT, "try_again"),
        ("MOVED 42 127.0.0.1:7001", Outcome.TRANSIENT, "moved"),
        ("ASK 42 127.0.0.1:7001", Outcome.TRANSIENT, "moved"),
        ("ERR max number of clients reached", Outcome.TRANSIENT, "too_many_clients"),
        ("WRONGTYPE Operation against", Outcome.BAD_DESTINATION, "not_a_stream"),
        ("NOPERM this user", Outcome.BAD_DESTINATION, "not_authorized"),
        ("NOAUTH Authentication required.", Outcome.BAD_DESTINATION, "not_authenticated"),
        ("WRONGPASS invalid username-password", Outcome.BAD_DESTINATION, "not_authenticated"),
        ("ERR unknown command 'XADD'", Outcome.BAD_DESTINATION, "refused"),
    ],
)
def test_error_reply_is_classified_by_its_code(text: str, outcome: Outcome, reason: str) -> None:
    result = refusal(BaseParser.parse_error(text))
    assert (result.outcome, result.reason) == (outcome, reason)


def test_refused_login_is_no_outage_although_its_class_says_so() -> None:
    error = BaseParser.parse_error("WRONGPASS invalid")
    assert isinstance(error, ConnectionError)
    assert not_connected(error).outcome is Outcome.BAD_DESTINATION


def test_failed_connect_means_not_sent_and_a_lost_reply_means_unknown() -> None:
    lost, late = ConnectionError("x"), TimeoutError("x")
    before = [(result.outcome, result.reason) for result in map(not_connected, (lost, late))]
    after = [(result.outcome, result.reason) for result in map(cut_off, (lost, late))]
    assert before == [(Outcome.TRANSIENT, "unreachable"), (Outcome.TRANSIENT, "timeout")]
    assert after == [(Outcome.AMBIGUOUS, "connection_lost"), (Outcome.AMBIGUOUS, "timeout")]


@pytest.mark.parametrize("text", ["OOM full", "LOADING starting"])
def test_full_or_starting_server_is_left_alone_for_a_while(text: str) -> None:
    assert refusal(BaseParser.parse_error(text)).retry_after_seconds >= 1

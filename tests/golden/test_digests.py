"""Records that change need a new version of their mappers."""

from tests.golden.digests import changed_exchanges, current_digests, known_digests


def test_no_record_changed_without_a_new_version() -> None:
    changed = changed_exchanges(known_digests(), current_digests())
    assert not changed, f"raise mapper_version of {changed} in exchanges/catalog.py"


def test_every_golden_message_has_a_digest() -> None:
    missing = current_digests().keys() - known_digests().keys()
    assert not missing, "run: python -m tests.golden.digests"


def test_changed_record_is_found_under_the_same_version_only() -> None:
    known = {("bitmex", 1, "message"): "old", ("okex", 1, "message"): "old"}
    assert changed_exchanges(known, {("bitmex", 1, "message"): "new"}) == {"bitmex"}
    assert changed_exchanges(known, {("okex", 2, "message"): "new"}) == set()

"""Subjects with wildcards, and which of them take which others."""

import pytest

from tardis_machine.buses.nats.subjects import covers, is_literal, is_pattern, matcher, widest


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a.b", "a.b"),
        ("a.*", "a.b"),
        ("a.*", "a.*"),
        ("*.*", "a.*"),
        (">", "a"),
        ("a.>", "a.b.c"),
        ("a.>", "a.>"),
        ("a.>", "a.*.>"),
    ],
)
def test_wider_pattern_covers_narrower_one(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("a.b", "a.c"), ("a.*", "a.b.c"), ("a.*", "a"), ("a.*", "a.>"), ("a.b", "a.*"), ("a.>", "a")],
)
def test_pattern_that_takes_less_covers_nothing(wide: str, narrow: str) -> None:
    assert not covers(wide, narrow)


def test_covered_and_repeated_patterns_are_left_out() -> None:
    assert widest(["a.*", "a.b", "c", "a.*"]) == ("a.*", "c")


def test_matcher_takes_what_the_server_would() -> None:
    pattern = matcher(["a.*.c", "d.>"])
    taken = [b"a.b.c", b"d.e", b"d.e.f"]
    refused = [b"a.b.b.c", b"a..c", b"d", b"xa.b.c", b"aab.c"]
    assert all(map(pattern.fullmatch, taken))
    assert not any(map(pattern.fullmatch, refused))


def test_only_subjects_without_wildcards_can_be_published_to() -> None:
    assert [is_literal(each) for each in ("a.b", "a.*", "a.>", "a..b", "a b")] == [True] + [
        False
    ] * 4
    assert [is_pattern(each) for each in ("a.b", "a.*", "a.>", ">", "a.>.b")] == [True] * 4 + [
        False
    ]

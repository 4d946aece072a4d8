from tardis_machine.bronze.ordinals import WINDOW, Ordinals


def next_ordinal(ordinals: Ordinals, label: str, local_us: int = 1) -> int:
    counts = ordinals.at(local_us)
    counts[label] = counts.get(label, 0) + 1
    return counts[label] - 1


def test_records_of_a_series_at_one_time_count_up_and_others_start_at_zero() -> None:
    ordinals = Ordinals()
    assert [next_ordinal(ordinals, label) for label in "aabab"] == [0, 1, 0, 2, 1]
    assert next_ordinal(ordinals, "a", 2) == 0


def test_time_that_comes_back_after_others_goes_on_counting() -> None:
    ordinals = Ordinals()
    for local_us in range(WINDOW):
        next_ordinal(ordinals, "a", local_us)
    assert next_ordinal(ordinals, "a", 0) == 1


def test_memory_is_bounded() -> None:
    ordinals = Ordinals()
    for local_us in range(10 * WINDOW):
        next_ordinal(ordinals, "a", local_us)
    assert len(ordinals.recent) + len(ordinals.older) <= 2 * WINDOW


def test_counting_goes_on_from_saved_counts() -> None:
    before = Ordinals()
    next_ordinal(before, "a")
    assert next_ordinal(Ordinals(before.older, before.recent), "a") == 1

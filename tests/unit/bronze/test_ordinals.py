from tardis_machine.bronze.ordinals import Ordinals


def test_equal_keys_count_up_and_others_start_at_zero() -> None:
    ordinals = Ordinals()
    assert [ordinals.next(key) for key in "aabab"] == [0, 1, 0, 2, 1]


def test_key_that_comes_back_after_others_goes_on_counting() -> None:
    ordinals = Ordinals(capacity=3)
    assert ordinals.next("a") == 0
    for key in "bcd":
        ordinals.next(key)
    assert ordinals.next("a") == 1


def test_memory_is_bounded() -> None:
    ordinals = Ordinals(capacity=10)
    for key in range(1000):
        ordinals.next(key)
    assert len(ordinals) <= 20

from tardis_machine.server.guards.connections import HalfClosed


def test_silent_answer_is_interrupted_ever_more_seldom_and_eight_times_at_most() -> None:
    client = HalfClosed(until=0.0)
    asked = [second for second in range(1, 10_000) if client.look(written_bytes=100)]
    assert asked == [1, 2, 4, 8, 16, 32, 64, 128]


def test_new_chunk_begins_the_count_again() -> None:
    client = HalfClosed(until=0.0)
    assert [client.look(written_bytes=100) for _ in range(3)] == [True, True, False]
    assert client.look(written_bytes=200)

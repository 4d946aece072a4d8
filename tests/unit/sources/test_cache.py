"""The cache: names shared with other tools, lookup, atomic writes, removal."""

from contextlib import suppress
from pathlib import Path

import pytest

from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tardis_machine.sources.cache import SliceFolder, UnconfirmedFile, clear_cache, minute_path
from tests.unit.sources.recorded import EXCHANGE, TRADES, lines, minute, put_in_cache

TRADES_HASH = "344565a28e99e233a29205050587032c5fe9635db429272bceacdf9abcf78a3f"
WHOLE_FEED_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def folder(cache_dir: Path, filters: tuple[Filter, ...] = TRADES) -> SliceFolder:
    return SliceFolder(cache_dir, EXCHANGE, filters)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("2019-06-01T00:00:00.000Z", "2019/06/01/00/00"),
        ("2019-12-31T23:59:00.000Z", "2019/12/31/23/59"),
        ("2020-02-09T05:07:00.000Z", "2020/02/09/05/07"),
    ],
)
def test_minutes_have_the_published_path(text: str, path: str) -> None:
    assert minute_path(parse_us(text)) == path


def test_slices_lie_where_other_tools_look(tmp_path: Path) -> None:
    root = tmp_path / "feeds" / EXCHANGE
    base = folder(tmp_path).base_path(minute(65))
    assert base == root / TRADES_HASH / "2024/03/01/01/05.json"
    sized = folder(tmp_path, ()).base_path(minute(5), 10)
    assert sized == root / WHOLE_FEED_HASH / "2024/03/01/00/05.size-10.json"


def test_zstd_is_preferred_to_gzip(tmp_path: Path) -> None:
    put_in_cache(tmp_path, 5, lines(5), suffix=".gz")
    zst = put_in_cache(tmp_path, 5, lines(5))
    cache = folder(tmp_path)
    found, exact = cache.find(minute(5)), cache.find_exact(minute(5), 1)
    assert found is not None
    assert found.path == zst
    assert exact == found


def test_a_longer_slice_covers_minutes_inside_it(tmp_path: Path) -> None:
    path = put_in_cache(tmp_path, 57, b"", size=10)
    cache = folder(tmp_path)
    for number in range(57, 67):
        found = cache.find(minute(number))
        assert found is not None
        assert (found.path, found.start_us, found.end_us) == (path, minute(57), minute(67))
    assert cache.find(minute(56)) is None
    assert cache.find(minute(67)) is None


def test_the_slice_that_starts_at_the_minute_wins(tmp_path: Path) -> None:
    put_in_cache(tmp_path, 0, b"", size=10)
    exact = put_in_cache(tmp_path, 5, b"")
    found = folder(tmp_path).find(minute(5))
    assert found is not None
    assert found.path == exact


@pytest.mark.parametrize(
    "name", ["05.json", "05.json0123456789abcdef.unconfirmed", "5.json.zst", "05.size-0.json.zst"]
)
def test_other_files_are_not_slices(tmp_path: Path, name: str) -> None:
    cache = folder(tmp_path)
    stray = cache.base_path(minute(5)).with_name(name)
    stray.parent.mkdir(parents=True)
    stray.touch()
    assert cache.find(minute(5)) is None


def test_a_long_walk_keeps_finding_slices(tmp_path: Path) -> None:
    numbers = range(0, 60 * 30, 30)
    for number in numbers:
        put_in_cache(tmp_path, number, b"")
    cache = folder(tmp_path)
    assert all(cache.find(minute(number)) for number in numbers)
    assert cache.find(minute(0)) is not None


def test_a_confirmed_file_has_its_name_and_content(tmp_path: Path) -> None:
    base = folder(tmp_path).base_path(minute(5))
    with UnconfirmedFile(base) as file:
        file.write(b"one ")
        [unconfirmed] = base.parent.iterdir()
        file.write(b"two")
        path = file.confirm(".gz")
    assert unconfirmed.name.startswith("05.json")
    assert unconfirmed.suffix == ".unconfirmed"
    assert len(unconfirmed.stem) == len("05.json") + 16
    assert list(base.parent.iterdir()) == [path]
    assert (path.name, path.read_bytes()) == ("05.json.gz", b"one two")


def test_an_abandoned_file_leaves_nothing(tmp_path: Path) -> None:
    base = folder(tmp_path).base_path(minute(5))
    with suppress(KeyboardInterrupt), UnconfirmedFile(base) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert list(base.parent.iterdir()) == []


def test_removing_the_last_slice_removes_its_empty_folders_only(tmp_path: Path) -> None:
    first, second = put_in_cache(tmp_path, 0, b""), put_in_cache(tmp_path, 60, b"")
    cache = folder(tmp_path)
    cache.remove(first)
    assert not first.parent.exists()
    assert second.exists()
    cache.remove(second)
    cache.remove(second)
    assert not cache.path.exists()
    assert (tmp_path / "feeds" / EXCHANGE).exists()


def test_clear_cache_reaches_as_deep_as_asked(tmp_path: Path) -> None:
    day, next_day = put_in_cache(tmp_path, 0, b""), put_in_cache(tmp_path, 24 * 60, b"")
    whole = put_in_cache(tmp_path, 0, b"", ())
    (tmp_path / "other").touch()
    clear_cache(tmp_path, EXCHANGE, TRADES, "2024-03-01")
    assert (day.exists(), next_day.exists(), whole.exists()) == (False, True, True)
    clear_cache(tmp_path, EXCHANGE, TRADES)
    assert (next_day.exists(), whole.exists()) == (False, True)
    clear_cache(tmp_path)
    clear_cache(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]

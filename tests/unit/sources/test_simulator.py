from pathlib import Path

from tardis_machine.sources.simulator import SimulatorSettings, simulate

ALL_CHANNELS = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def files_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_slices_lie_where_the_cache_looks_for_all_channels(tmp_path: Path) -> None:
    simulate(
        SimulatorSettings(out=tmp_path, start="2024-03-01T23:59", minutes=2, exchanges=("bitmex",))
    )

    assert sorted(files_of(tmp_path)) == [
        f"feeds/bitmex/{ALL_CHANNELS}/2024/03/01/23/59.json.zst",
        f"feeds/bitmex/{ALL_CHANNELS}/2024/03/02/00/00.json.zst",
    ]


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        simulate(SimulatorSettings(out=tmp_path / name, minutes=2, rate=20, with_gaps=True))

    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")

"""What is kept of a platform between two runs of ``triobot dev``, and when it is not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from triobot.cli.dev import SavedPlatform
from triobot.emulator.exchange import Exchange
from triobot.emulator.server import make_exchange
from triobot.errors import ConfigError
from triobot.wire.encode import Body


async def nobody(body: Body) -> int | None:
    await trio.lowlevel.checkpoint()
    return None


def a_run(folder: Path, *, adds: str = "") -> list[str]:
    """Who is there at its end."""
    with closing(SavedPlatform(f"sqlite:{folder}/dev.db")) as saved:
        exchange = new_exchange(folder)
        saved.load(exchange)
        if adds:
            exchange.world.add_user(adds)
    return [user.name for user in exchange.world.people]


def new_exchange(folder: Path) -> Exchange:
    return make_exchange(folder, nobody, base_url="http://127.0.0.1:9")


def test_a_platform_goes_with_its_store(tmp_path: Path) -> None:
    """One that had no store yet was thrown away with none."""
    store = tmp_path / "dev.db"
    assert a_run(tmp_path, adds="Lena") == ["Lena"]
    assert a_run(tmp_path, adds="Mona") == ["Lena", "Mona"]
    store.touch()
    assert a_run(tmp_path) == ["Lena", "Mona"]
    store.unlink()
    assert a_run(tmp_path) == []


def test_how_it_ended_is_kept_after_a_failure_as_well(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="broken"),
        closing(SavedPlatform(f"sqlite:{tmp_path}/dev.db")) as saved,
    ):
        exchange = new_exchange(tmp_path)
        saved.load(exchange)
        exchange.world.add_user("Lena")
        raise RuntimeError("broken")

    assert a_run(tmp_path) == ["Lena"]


def test_what_is_damaged_stays_to_be_mended(tmp_path: Path) -> None:
    (tmp_path / "dev.db").touch()
    kept = tmp_path / "dev.db.platform"
    kept.write_text('{"version": 1, "people": [')

    with pytest.raises(ConfigError, match="mend it"):
        a_run(tmp_path)

    assert kept.read_text() == '{"version": 1, "people": ['


async def test_the_last_moment_is_kept_while_an_earlier_one_is_written(tmp_path: Path) -> None:
    """A cancelled writer ends what it writes first, so the last word is the newest."""
    saved, exchange = SavedPlatform(f"sqlite:{tmp_path}/dev.db"), new_exchange(tmp_path)
    with closing(saved):
        saved.load(exchange)
        exchange.world.add_user("Lena")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(saved.keep)
            exchange.tell()
            await trio.testing.wait_all_tasks_blocked()
            exchange.world.add_user("Mona")
            exchange.tell()
            nursery.cancel_scope.cancel()

    assert a_run(tmp_path) == ["Lena", "Mona"]


@pytest.mark.parametrize("store", [None, "memory:"])
def test_beside_nothing_nothing_is_kept(tmp_path: Path, store: str | None) -> None:
    with closing(SavedPlatform(store)) as saved:
        saved.load(new_exchange(tmp_path))

    assert saved.folder is None

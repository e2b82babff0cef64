"""What is kept of a platform between two runs of ``triobot dev``, and when it is not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from triobot.emulator.exchange import Exchange
from triobot.emulator.server import make_exchange
from triobot.errors import ConfigError
from triobot.studio.keeping import SavedPlatform
from triobot.wire.platform_side import Body


async def nobody(body: Body) -> int | None:
    await trio.lowlevel.checkpoint()
    return None


def a_run(folder: Path, *, adds: str = "") -> list[str]:
    """Who is there at its end."""
    with closing(SavedPlatform.beside(f"sqlite:{folder}/dev.db")) as saved:
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


def test_skipped_time_and_kills_go_with_the_store(tmp_path: Path) -> None:
    """So that the next run is as late, and shows the kills on a conversation's time line."""
    store, kill = tmp_path / "dev.db", {"t": 5, "what": "kill"}
    store.touch()
    with closing(SavedPlatform.beside(f"sqlite:{store}")) as saved:
        exchange = new_exchange(tmp_path)
        saved.load(exchange)
        exchange.pass_time(90_000)
        saved.marks.append({"t": 5, "what": "kill"})
    with closing(SavedPlatform.beside(f"sqlite:{store}")) as saved:
        assert (saved.ahead, [*saved.marks]) == (90_000, [kill])
    store.unlink()
    with closing(SavedPlatform.beside(f"sqlite:{store}")) as saved:
        assert (saved.ahead, [*saved.marks]) == (0, [])


def test_how_it_ended_is_kept_after_a_failure_as_well(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="broken"),
        closing(SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db")) as saved,
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


def test_what_is_damaged_goes_with_its_store(tmp_path: Path) -> None:
    """Nothing is lost by it: the bot that knew these people is gone."""
    (tmp_path / "dev.db.platform").write_text("[")

    assert a_run(tmp_path, adds="Lena") == ["Lena"]


async def test_the_last_moment_is_kept_while_an_earlier_one_is_written(tmp_path: Path) -> None:
    """A cancelled writer ends what it writes first, so the last word is the newest."""
    saved, exchange = SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db"), new_exchange(tmp_path)
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
    with closing(SavedPlatform.beside(store)) as saved:
        saved.load(new_exchange(tmp_path))

    assert saved.folder is None


def test_the_keys_go_with_the_platform(tmp_path: Path) -> None:
    """So that a page which is open finds its platform again; only the owner of the file can read them."""
    (tmp_path / "dev.db").touch()
    with closing(SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db")) as saved:
        key, given = saved.secret("control"), saved.secret("token", "mine")
        saved.load(new_exchange(tmp_path))
    with closing(SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db")) as saved:
        assert (saved.secret("control"), saved.secret("token")) == (key, given)
        saved.load(new_exchange(tmp_path))

    assert (tmp_path / "dev.db.platform").stat().st_mode & 0o077 == 0
    (tmp_path / "dev.db").unlink()
    with closing(SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db")) as saved:
        assert saved.secret("control") != key


def test_a_platform_has_one_run_at_a_time(tmp_path: Path) -> None:
    """The second one neither reads it nor throws it away, as it would without the store."""
    a_run(tmp_path, adds="Lena")
    before = (tmp_path / "dev.db.platform").read_text()
    with closing(SavedPlatform.beside(f"sqlite:{tmp_path}/dev.db")):
        with pytest.raises(ConfigError, match=r"has the platform in .*dev\.db\.platform; end it"):
            a_run(tmp_path, adds="Mona")
        assert (tmp_path / "dev.db.platform").read_text() == before
    assert a_run(tmp_path) == ["Lena"]


def test_a_platform_without_a_bot_s_store(tmp_path: Path) -> None:
    """Its clock is where it was, too: people have lived through what was skipped."""
    path = tmp_path / "shop.platform"
    with closing(SavedPlatform(path)) as saved:
        exchange = new_exchange(tmp_path)
        saved.load(exchange)
        exchange.world.add_user("Lena")
        exchange.pass_time(90_000)
    with closing(SavedPlatform(path)) as saved:
        exchange = new_exchange(tmp_path)
        saved.load(exchange)
        assert (saved.ahead, saved.folder) == (90_000, tmp_path / "shop.files")
        assert [user.name for user in exchange.world.people] == ["Lena"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/dev\.db\.platform\.lock can't be opened"):
        SavedPlatform.beside(f"sqlite:{tmp_path}/nowhere/dev.db")

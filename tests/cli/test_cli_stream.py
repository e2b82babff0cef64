"""``triobot store stream``, and what ``restore`` and ``check`` make of its folder."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path

import attrs
import pytest
import trio
from cli_rig import Command, Ended

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.cli.store_stream import keep, keep_replica
from triobot.errors import ConfigError, ConflictError, NotFoundError, StoreError
from triobot.operator.routes import Answer
from triobot.seams.writes import Shipped
from triobot.store.replica import Replica, lock_replica

STORE = "sqlite:disk/bot.db"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    """One for the store, and one for its replica."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "replica").mkdir()


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    return triobot


def settings(store: str = STORE) -> Settings:
    return Settings(token=Secret("rig-token"), base_url="http://127.0.0.1:9", store=store)


def patient(chats: Chats, store: str) -> Bot:
    """A bot that asks for a name."""
    bot = make_bot(chats, store=store)

    @bot.conversation
    async def greets(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        await chat.send(f"Hello {name}!")

    return bot


async def has_all(folder: Path) -> None:
    """Wait until a replica has what is committed now."""
    now, manifest = time.time_ns() // 1_000_000, trio.Path(folder / "stream.json")
    with trio.fail_after(PATIENCE):
        while not await manifest.exists() or json.loads(await manifest.read_text())["as_of"] <= now:
            await trio.sleep(0.01)


def beside_a_stream(
    replicas: Sequence[Path], *commands: Callable[[], Ended], store: str = STORE, chats: Sequence[int] = (7,)
) -> list[Ended]:
    """Let people talk to a bot that is streamed, and run commands when the replica has everything."""

    async def main() -> list[Ended]:
        heard = Chats()
        async with patient(heard, store).running() as intake, trio.open_nursery() as nursery:
            nursery.start_soon(keep, settings(store), Path("replica"))
            # Its image is complete before anybody speaks: what is said is in the log behind it.
            for replica in replicas:
                await has_all(replica)
            for chat in chats:
                await say(intake, chat, "hi")
                await heard.wait_for(chat, "Your name?")
            for replica in replicas:
                await has_all(replica)
            ended = [await trio.to_thread.run_sync(one) for one in commands]
            nursery.cancel_scope.cancel()
        return ended

    return trio.run(main)


def continue_all(store: str = STORE, chats: Sequence[int] = (7,)) -> None:
    """Answer the question that each chat was asked before its bot was restored."""

    async def main() -> None:
        heard = Chats()
        async with patient(heard, store).running() as intake:
            for chat in chats:
                await say(intake, chat, "Sara")
                with trio.fail_after(PATIENCE):
                    while heard.texts[chat][-1:] != ["Hello Sara!"]:
                        await trio.sleep(0.01)

    trio.run(main)


def test_a_bot_that_was_streamed_comes_back_on_an_empty_disk(command: Command, tmp_path: Path) -> None:
    (status,) = beside_a_stream([Path("replica")], lambda: command("status"))
    assert "a streamer is attached since" in status.out
    assert ", and had everything 0 s ago" in status.out
    before = {file.name: file.read_bytes() for file in Path("replica").iterdir()}
    for file in Path("disk").iterdir():
        file.unlink()

    checked, restored = command("store", "check", "replica"), command("store", "restore", "replica")

    assert (checked.code, checked.out) == (0, "replica is whole\n")
    assert restored.code == 0
    assert "restored sqlite:disk/bot.db from replica\nit has all that was committed by 2" in restored.out
    assert {file.name: file.read_bytes() for file in Path("replica").iterdir()} == before
    assert sorted(file.name for file in Path("disk").iterdir()) == ["bot.db", "bot.db.lock"]
    assert json.loads(command("status", "--json").out)["epoch"] == 1
    continue_all()


def test_a_store_that_is_there_is_kept_when_a_stream_takes_its_place(command: Command) -> None:
    beside_a_stream([Path("replica")])
    restored = command("store", "restore", "replica")
    assert "the store before it is kept as" in restored.out
    continue_all()


def test_a_damaged_stream_is_told(command: Command) -> None:
    beside_a_stream([Path("replica")])
    log = Path("replica/store.db-wal")
    log.write_bytes(log.read_bytes()[:-5_000])
    for file in Path("disk").iterdir():
        file.unlink()

    checked, restored = command("store", "check", "replica"), command("store", "restore", "replica")

    assert checked.code == 1
    assert "its log is damaged" in checked.out
    assert restored.code == 0
    assert "the last commits are missing" in restored.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stream", "replica", "--store", "postgresql://nowhere/bot"), "streams no store in PostgreSQL"),
        (("stream", "replica", "--store", "memory:"), "only a sqlite: store is a file"),
        (("stream", "absent"), "there is no folder"),
        (("stream", "disk"), "is where the store is"),
        (("stream", "hello"), "holds hello.py and no stream"),
        (("restore", "replica"), "holds no stream"),
        (
            ("restore", "absent"),
            "there is no file or folder absent; name a backup, or the folder of a stream",
        ),
        (("check", "replica"), "holds no stream"),
        (("restore", "replica"), "holds no stream"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    command: Command, tmp_path: Path, arguments: Sequence[str], says: str
) -> None:
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "hello.py").write_text("")
    ended = command("store", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert ended.err.count("\n") == 1


# --- what a streamer says, and when it begins anew


@attrs.define
class FakeBot:
    """Sends what it is told to, one connection after another."""

    connections: list[Callable[[Callable[[Answer], Awaitable[None]]], Awaitable[bool]]]
    over: trio.Event = attrs.Factory(trio.Event)

    async def ask(self, tell: Callable[[Answer], Awaitable[None]]) -> bool:
        if not self.connections:
            self.over.set()
            await trio.sleep_forever()
        return await self.connections.pop(0)(tell)


BEGUN: Answer = {"stream": 1, "store": "s", "bot": "pizza", "epoch": 0, "boot": 1}


def line(piece: Shipped) -> Answer:
    return {**attrs.asdict(piece), "data": b64encode(piece.data).decode()}


async def away(tell: Callable[[Answer], Awaitable[None]]) -> bool:
    await trio.lowlevel.checkpoint()
    return False


def fails(error: Exception) -> Callable[[Callable[[Answer], Awaitable[None]]], Awaitable[bool]]:
    async def ask(tell: Callable[[Answer], Awaitable[None]]) -> bool:
        await trio.lowlevel.checkpoint()
        raise error

    return ask


async def sends_two(tell: Callable[[Answer], Awaitable[None]]) -> bool:
    await tell(BEGUN)
    await tell(line(Shipped("image", 0, b"", ends=True, size=0)))
    for as_of in (5, 6):
        await tell(line(Shipped("log", 0, as_of=as_of)))
    raise StoreError("the bot ended")


async def says_nothing_more(tell: Callable[[Answer], Awaitable[None]]) -> bool:
    await tell(BEGUN)
    await trio.sleep_forever()
    return True


async def falls_behind(tell: Callable[[Answer], Awaitable[None]]) -> bool:
    await tell(BEGUN)
    await tell(line(Shipped("image", 0, b"", ends=True, size=0)))
    await tell(line(Shipped("log", 0, as_of=0)))
    await tell(line(Shipped("log", 0, as_of=1_000)))
    await trio.sleep(6)
    await tell(line(Shipped("log", 0)))
    await tell(line(Shipped("log", 0, as_of=9_000)))
    return True


@pytest.fixture
def replica(tmp_path: Path) -> Generator[Replica]:
    with lock_replica(tmp_path / "replica", tmp_path / "disk" / "bot.db") as locked:
        yield locked


async def test_each_change_of_state_is_said_once(
    replica: Replica, autojump_clock: trio.testing.MockClock
) -> None:
    said: list[str] = []
    bot = FakeBot(
        [
            away,
            away,
            fails(ConflictError("another streamer is attached to this store")),
            sends_two,
            fails(StoreError("it runs as another user")),
            says_nothing_more,
            falls_behind,
        ]
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_replica, bot.ask, replica, said.append)
        await bot.over.wait()
        nursery.cancel_scope.cancel()
    assert said == [
        "waits, since no bot runs",
        "waits: another streamer is attached to this store",
        "takes an image of 0 bytes",
        "streams; has all that is committed",
        "begins anew: the bot has ended, or has cut the stream; then its log says why",
        "begins anew: it runs as another user",
        "waits, since the bot has sent nothing for 30 seconds",
        "takes an image of 0 bytes",
        "streams; has all that is committed",
        "is behind; has all that was committed by 1970-01-01 00:00:01Z",
        "streams; has all that is committed",
    ]


async def test_a_folder_in_trouble_is_tried_again_later(
    replica: Replica, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    async def too_large(tell: Callable[[Answer], Awaitable[None]]) -> bool:
        await tell(BEGUN)
        await tell(line(Shipped("image", 0, b"x", size=1 << 62)))
        return True

    bot, began = FakeBot([too_large, sends_two]), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_replica, bot.ask, replica, said.append)
        await bot.over.wait()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began >= 10
    assert said[0].startswith("takes an image of 4,611,686,018,427,387,904")
    assert "and a new image takes 4611686018427387904" in said[1]
    assert said[3] == "streams; has all that is committed"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (fails(NotFoundError("there is no such path")), "of another version than this command"),
        (fails(ConfigError("this user may not ask the bot")), "may not ask"),
    ],
)
async def test_what_waiting_does_not_mend_ends_it(
    replica: Replica, asked: Callable[[Callable[[Answer], Awaitable[None]]], Awaitable[bool]], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        await keep_replica(FakeBot([asked]).ask, replica, print)


@pytest.mark.parametrize("told", [{}, {**BEGUN, "stream": 2}, {"stream": 1}])
async def test_a_bot_of_another_version_is_told(replica: Replica, told: Answer) -> None:
    async def sends(tell: Callable[[Answer], Awaitable[None]]) -> bool:
        await tell(told)
        return True

    with pytest.raises(ConfigError, match="of another version than this command"):
        await keep_replica(FakeBot([sends]).ask, replica, print)


def test_two_streamers_do_not_share_a_folder(command: Command) -> None:
    with lock_replica(Path("replica"), Path("disk/bot.db")):
        ended = command("store", "stream", "replica")
    assert ended.code == 1
    assert "another streamer writes to" in ended.err

"""Two nodes with shards of one store, over real sockets and files, in one process of the test's."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast, get_args

import attrs
import httpx
import pytest
import trio
import trio.testing

from tests.bot.rig import FORM, Chats
from tests.loopback import PATIENCE, text_event
from triobot import Bot, Chat, Key, Settings
from triobot.clock import SystemClock
from triobot.conversations.doors.calls import Halt
from triobot.errors import ConfigError
from triobot.filters import signal, text
from triobot.nodes.frames import (
    FRAMES,
    AddToPart,
    EndPart,
    FindPayment,
    Frame,
    OpenPart,
    PutKept,
    RaiseAtHome,
    ReadBroadcast,
    ReadGone,
    ReadKeptOf,
    ReadKeyed,
    ReplaceKept,
    Said,
    SettleKept,
    StartRoute,
    StopBroadcast,
    StopRoute,
    TellPlace,
)
from triobot.nodes.links import VERSION, Kind, StrangerError, open_link
from triobot.nodes.node import Node, prepare_shards
from triobot.nodes.parent import ParentLine
from triobot.nodes.peers import door_of
from triobot.seams import BroadcastStatus
from triobot.secrets import Secret
from triobot.shards import NodePlace, shard_of
from triobot.values import decode_value, encode_value
from triobot.webhook.inbox import EventStored, Unread
from triobot.wire.ids import ChatId

COUNTED = Key("two.counted", int, default=0)
NODES, SHARDS = 2, 4
KEY = b"k" * 32


def settings_of(folder: Path, **more: Any) -> Settings:
    return Settings(
        token=Secret("rig-token"),
        base_url="http://127.0.0.1:9",
        allow_insecure=True,
        store=f"sqlite:{folder}/bot.db?shards={SHARDS}",
        **more,
    )


def a_bot(chats: Chats, settings: Settings) -> Bot:
    bot = Bot(settings=settings, transport=httpx.MockTransport(chats.take))

    @bot.conversation(text("count"), name="count")
    async def count(chat: Chat) -> None:
        there = await chat.shared.update(COUNTED, lambda old: old + 1)
        await chat.send(f"counted {there > 0}")

    @bot.aside(signal(str), name="hear")
    async def hear(chat: Chat) -> None:
        await chat.send(f"heard {chat.event}")

    @bot.conversation(text(), name="repeat")
    async def repeat(chat: Chat) -> None:
        await chat.send(getattr(chat.event, "content", "?"))

    return bot


@attrs.define
class Rig:
    """The nodes, and what their platform saw."""

    chats: Chats
    bots: list[Bot]
    nodes: list[Node]

    def inbox(self, number: int) -> Any:
        return self.nodes[number].inbox


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncGenerator[Rig]:
    """Both nodes at work, connected."""
    chats, settings = Chats(), settings_of(folder)
    await prepare_shards(settings, SystemClock())
    rig = Rig(chats, [], [])
    # In one process both at once can't come to rest together by a parent: each has a line that is closed.
    async with AsyncExitStack() as opened:
        for number in range(NODES):
            bot = a_bot(chats, settings)
            line = ParentLine(-1)
            line._at_rest.set()
            place = NodePlace(number, NODES)
            node = cast(
                "Node", await opened.enter_async_context(bot._opened(settings, SystemClock(), place, line))
            )
            await opened.enter_async_context(bot._working(node, ()))
            rig.bots.append(bot)
            rig.nodes.append(node)
        with trio.fail_after(PATIENCE):
            for node in rig.nodes:
                assert node.peers is not None
                while not all(peer.is_there for peer in node.peers.all.values()):
                    await trio.sleep(0.005)
        yield rig


def chats_of(node: int, many: int) -> list[int]:
    """Chats whose shards a node has."""
    return [n for n in range(1, 1000) if NodePlace(node, NODES).has(shard_of(ChatId(n), SHARDS))][:many]


async def test_an_event_may_come_to_any_node(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as rig:
        for number in range(NODES):
            for chat in (*chats_of(0, 3), *chats_of(1, 3)):
                outcome = await rig.inbox(number).accept(FORM, text_event(chat, f"by {number}"))
                assert isinstance(outcome, EventStored)
                assert not outcome.repeated
                rig.inbox(number).answered(outcome)
        for chat in (*chats_of(0, 3), *chats_of(1, 3)):
            await rig.chats.wait_for(chat, "by 0", "by 1")
        assert rig.nodes[0].inbox.handed_on == rig.nodes[1].inbox.handed_on == 3


async def test_redeliveries_are_told_from_repetitions_across_nodes(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as rig:
        chat = chats_of(1, 1)[0]
        inbox = rig.inbox(0)
        first = await inbox.accept(FORM, text_event(chat, "hi"))
        # Its 200 was not written: the platform delivers it once more, whichever node it comes to.
        assert (await inbox.accept(FORM, text_event(chat, "hi"))).repeated
        assert (await rig.inbox(1).accept(FORM, text_event(chat, "hi"))).repeated
        inbox.answered(first)
        await trio.sleep(0)
        with trio.fail_after(PATIENCE):
            # The user says it once more, once the other node knows that the 200 was written.
            while (await inbox.accept(FORM, text_event(chat, "hi"))).repeated:
                await trio.sleep(0.005)
        await rig.chats.wait_for(chat, "hi", "hi")


async def test_what_conversations_and_programs_say_crosses_nodes(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as rig:
        everybody = [*chats_of(0, 4), *chats_of(1, 4)]
        for index, chat in enumerate(everybody):
            await rig.inbox(index % NODES).accept(FORM, text_event(chat, "count"))
        for chat in everybody:
            await rig.chats.wait_for(chat, "counted True")
        for bot in rig.bots:
            assert await bot.shared.get(COUNTED) == len(everybody)
        for chat in everybody:
            await rig.bots[0].to(chat).signal("a")
        for chat in everybody:
            await rig.chats.wait_for(chat, "counted True", "heard a")
        assert await rig.bots[1].broadcast("all").start("News.", everybody)
        with trio.fail_after(PATIENCE):
            while (await rig.bots[0].broadcast("all").status()).state != "done":
                await trio.sleep(0.01)
        assert await rig.bots[1].broadcast("all").status() == BroadcastStatus("done", 8, 8)


async def test_an_unreadable_body_is_kept_where_it_came(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as rig:
        for number in range(NODES):
            assert await rig.inbox(number).accept("text/plain", b"?") == Unread()


FRAMES_SENT: list[Frame] = [
    TellPlace(Said(ChatId(1), 5, "triobot/signal\n", b"[1,2]", "signal:1:x")),
    StartRoute(Said(ChatId(1), 5, "triobot/call\n", b"{}", "call:1:x"), Halt(ChatId(1), "visit", "key")),
    StopRoute(Halt(ChatId(1), "visit")),
    ReadKeptOf(ChatId(-7)),
    PutKept(ChatId(1), "key", None, "once"),
    ReplaceKept(ChatId(1), "key", None, "new", "once"),
    SettleKept(ChatId(1), "once"),
    ReadKeyed("key", None),
    FindPayment("17", invoice=True),
    OpenPart("session", "key", "content"),
    AddToPart("session", (ChatId(1), ChatId(2))),
    EndPart("session", given_up=True),
    ReadBroadcast("key"),
    StopBroadcast("key"),
    ReadGone("key", 7),
    RaiseAtHome("token_refused", "outbox", "text"),
]


@pytest.mark.parametrize("frame", FRAMES_SENT, ids=lambda frame: type(frame).__name__)
def test_each_frame_comes_as_it_was_sent(frame: Frame) -> None:
    assert decode_value(encode_value(frame)) == frame


def test_no_frame_is_left_out() -> None:
    assert {type(frame) for frame in FRAMES_SENT} == set(get_args(Frame)) == set(FRAMES)


# --- the links


async def test_a_process_with_another_key_is_sent_away(tmp_path: Path) -> None:
    async with two_nodes(tmp_path):
        stream = await trio.open_unix_socket(str(door_of(tmp_path / "bot.db", 0)))
        with pytest.raises((StrangerError, trio.BrokenResourceError)):
            async with open_link(stream, KEY, first=True):
                raise AssertionError


async def test_a_process_of_another_version_is_sent_away(tmp_path: Path) -> None:
    async with two_nodes(tmp_path):
        async with await trio.open_unix_socket(str(door_of(tmp_path / "bot.db", 0))) as stream:
            await stream.send_all(b"triobot-node/9\n" + bytes(32))
            with trio.fail_after(PATIENCE):
                said = b""
                while piece := await stream.receive_some():
                    said += piece
        # Its greeting, and nothing that proves the key.
        assert len(said) == len(VERSION) + 32


async def test_both_sides_of_a_link_prove_the_key() -> None:
    left, right = trio.testing.memory_stream_pair()
    heard: list[Any] = []

    async def answer() -> None:
        async with open_link(right, KEY, first=False) as link:
            heard.append(await link.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        async with open_link(left, KEY, first=True) as link:
            link.send(Kind.ASK, 7, b"content")
            with trio.move_on_after(0.05):
                await link.keep_sending()
    assert heard == [(Kind.ASK, 7, b"content")]


async def test_nobody_proves_the_key_with_the_other_s_own_words() -> None:
    """Whoever has no key could send back what it is told."""
    left, right = trio.testing.memory_stream_pair()

    async def mirror() -> None:
        while piece := await right.receive_some():
            await right.send_all(piece)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror)
        with pytest.raises(StrangerError, match="doesn't have this store's key"):
            async with open_link(left, KEY, first=True):
                raise AssertionError
        nursery.cancel_scope.cancel()


# --- the files


async def test_missing_shards_are_told_and_never_made_anew(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    await prepare_shards(settings, SystemClock())
    (tmp_path / "bot.db.1").unlink()
    (tmp_path / "bot.db.2").write_bytes(b"")  # as a disk that was full, or a mistyped `>`, leaves it
    with pytest.raises(ConfigError, match=r"are missing: \S*bot\.db\.1, \S*bot\.db\.2; bring them back"):
        await prepare_shards(settings, SystemClock())
    assert not (tmp_path / "bot.db.1").exists()


async def test_a_shard_of_another_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in ("a", "b"):
        await prepare_shards(settings_of(tmp_path / folder), SystemClock())
    (tmp_path / "b" / "bot.db.2").replace(tmp_path / "a" / "bot.db.2")
    with pytest.raises(ConfigError, match=r"bot\.db\.2 is a shard of another store than"):
        await prepare_shards(settings_of(tmp_path / "a"), SystemClock())


async def test_a_store_whose_making_was_cut_short_is_finished(tmp_path: Path) -> None:
    """The first start was killed when two of four files were there: nothing was acknowledged by then."""
    settings = settings_of(tmp_path)
    await prepare_shards(settings, SystemClock())
    for file in tmp_path.iterdir():
        file.unlink()
    one = attrs.evolve(settings, store=f"sqlite:{tmp_path}/bot.db?shards={SHARDS}&shard=0")
    from triobot.cli.webhook_url import current_secret

    await current_secret(one)  # as the command makes the home shard before the first start
    await prepare_shards(settings, SystemClock())
    assert sorted(file.name for file in tmp_path.glob("bot.db.?")) == [f"bot.db.{n}" for n in range(SHARDS)]


async def test_a_bot_runs_on_all_shards_or_not_at_all(tmp_path: Path) -> None:
    settings = attrs.evolve(settings_of(tmp_path), store=f"sqlite:{tmp_path}/bot.db?shards=4&shard=1")
    with pytest.raises(ConfigError, match="a bot runs on all shards of its store: leave &shard= out"):
        async with Bot(settings=settings).running():
            raise AssertionError

"""What an onlooker sees of a chat: tasks and their lines, deadlines, what waits; and no text of a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing
from town import CHAT, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat, Room
from triobot.conversations.routes.filters import command, signal, text
from triobot.conversations.routes.router import Router
from triobot.outbox import LaneReport, open_outbox
from triobot.wire.ids import ChatId
from triobot.wire.operations import Operation, SendMessage

SECRET = "the text that somebody wrote"


def only(portraits: Any) -> Any:
    [chat] = portraits
    [conversation] = chat["conversations"]
    return conversation


async def test_a_conversation_s_line_and_its_deadlines(autojump_clock: MockClock) -> None:
    bot = Router()

    async def in_a_hurry(chat: Chat) -> None:
        with chat.move_on_after(60), chat.move_on_when(command("stop")):
            await chat.ask("Quick?")

    @bot.conversation
    async def slow(chat: Chat) -> None:
        await in_a_hurry(chat)

    async with open_town(bot) as town:
        await town.says("go")
        seen = only(town.dispatcher.chats.portraits(10))

        assert tuple(map(seen.get, ("kind", "state"))) == ("conversation", "waits")
        assert seen["route"].endswith("slow")
        [task] = seen["tasks"]
        assert (task["path"], task["place"], task["kind"]) == ("", "rests", "receive")
        assert [(at["function"].rpartition(".")[2], at["code"]) for at in task["positions"]] == [
            ("slow", "await in_a_hurry(chat)"),
            ("in_a_hurry", 'await chat.ask("Quick?")'),
        ]
        assert all(Path(at["file"]) == Path(__file__) for at in task["positions"])
        timed, watched = seen["blocks"]
        assert timed["due"] == town.services.clock.now() + 60_000
        assert (watched["due"], watched["until"]) == (None, "command(stop)")


async def test_children_are_told_below_their_parent() -> None:
    bot = Router()

    async def child(chat: Chat, name: str) -> None:
        await chat.receive(text(name))

    @bot.conversation
    async def parent(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child, chat, "a")
            nursery.start_soon(child, chat, "b")

    async with open_town(bot) as town:
        await town.says("go")
        tasks = only(town.dispatcher.chats.portraits(10))["tasks"]
        assert [task["path"] for task in tasks] == ["", "1/1.", "1/2."]
        assert [task["positions"][-1]["function"].rpartition(".")[2] for task in tasks] == [
            "parent",
            "child",
            "child",
        ]


async def test_a_step_works_and_what_comes_meanwhile_is_in_the_mailbox() -> None:
    bot, done = Router(), trio.Event()

    @bot.conversation
    async def busy(chat: Chat) -> None:
        await chat.step(done.wait)
        await chat.ask("And?")
        await chat.ask("More?")

    async with open_town(bot) as town:
        await town.says("go")
        seq = await town.says(SECRET)
        chats: Any = town.dispatcher.chats.portraits(10)
        [chat] = chats
        [queued] = chat["mailbox"]
        assert (queued["seq"], queued["what"]) == (seq, "text")
        [conversation] = chat["conversations"]
        assert (conversation["state"], conversation["tasks"][0]["kind"]) == ("works", "step")
        assert SECRET not in repr(chat)

        done.set()
        await town.rest()
        assert only(town.dispatcher.chats.portraits(10))["state"] == "waits"


async def test_the_newest_chats_are_told_first_and_so_many() -> None:
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.ask("What?")
        await chat.ask("Again?")

    async with open_town(bot) as town:
        for chat in (1, 2, 3):
            await town.says("go", chat)
        await town.says("go", 2)
        assert [seen["chat_id"] for seen in town.dispatcher.chats.portraits(2)] == [2, 3]


@attrs.define
class Silent:
    """A platform that answers nobody."""

    asked: list[str] = attrs.field(factory=list[str])

    async def perform(self, operation: Operation[object]) -> object:
        self.asked.append(operation.path)
        await trio.sleep_forever()
        raise AssertionError


async def test_a_lane_tells_what_waits_in_it() -> None:
    async with (
        trio.open_nursery() as nursery,
        open_outbox(Silent(), raise_alarm=lambda alarm: None) as outbox,  # type: ignore[arg-type]
    ):
        assert outbox.lane(CHAT) == LaneReport((), 0, 0, 0, 0.0, suspended=False)
        for number in range(30):
            nursery.start_soon(outbox.perform, SendMessage(CHAT, f"{SECRET} {number}"))
        await trio.testing.wait_all_tasks_blocked()
        lane = outbox.lane(CHAT)
        assert (lane.queued, lane.in_flight, lane.attempts, lane.suspended) == (30, 1, 1, False)
        assert set(lane.operations) == {"sendMessage"} and len(lane.operations) == 20
        assert outbox.lane(ChatId(6)).queued == 0
        nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()


async def test_a_room_is_called_by_its_name_and_key(autojump_clock: MockClock) -> None:
    bot = Router()

    @bot.room(signal(str), name="diary")
    async def diary(room: Room[str]) -> None:
        await room.sleep(60)

    @bot.conversation
    async def tell(chat: Chat) -> None:
        await chat.to(diary, "2026-01-28").signal("begin")

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(1)

        [seen] = town.dispatcher.chats.portraits(10)
        assert (seen["place"], only([seen])["route"]) == ("diary 2026-01-28", "diary")

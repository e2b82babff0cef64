"""What has just begun or goes on, killed at every act: as its event is stored, and at all that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from crash_scenes import Killer

from tests.samples import EVERY
from tests.stores import store_of
from triobot import Bot, Chat, Key
from triobot.errors import DeliveryUnknownError
from triobot.filters import command, text
from triobot.testing import DrivenWorld, drive
from triobot.testing.process import CrashableStore

COUNT = Key("begun_crashes_count", int, default=0)


class EarlyKiller(Killer):
    """Kills around the acceptance of an event as well."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        super().__init__(patch, at)
        accept = CrashableStore.accept

        async def accept_and_die(store: CrashableStore, arrival: Any, **how: Any) -> Any:
            mortal, on_commit = store._mortal, how.pop("on_commit")

            def told(row: Any) -> None:
                self.acted(mortal)
                if not mortal.dead:
                    on_commit(row)

            accepted = await accept(store, arrival, on_commit=told, **how)
            self.acted(mortal)
            return accepted

        patch.setattr(CrashableStore, "accept", accept_and_die)


def bot_of_beginners(done: list[str]) -> Bot:
    """What each of its conversations does first is something else."""
    bot = Bot()

    async def work(what: str) -> None:
        await trio.lowlevel.checkpoint()
        done.append(what)

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.aside(text("beside"))
    async def beside(chat: Chat) -> None:
        await chat.send("I go beside.")

    @bot.conversation(text("second"))
    async def second(chat: Chat, n: int = 0) -> None:
        await chat.send(f"Part {n}.")

    @bot.conversation(text("goes on at once"))
    async def at_once(chat: Chat) -> None:
        await chat.continue_as(second, 2)

    @bot.conversation(text("goes on"))
    async def goes_on(chat: Chat) -> None:
        await chat.ask("Ready?")
        await chat.continue_as(second, 3)

    @bot.conversation(text("works"))
    async def works(chat: Chat) -> None:
        await chat.step(work, "a")
        await chat.send(f"Done, {chat.random().random()}.")

    @bot.conversation(text("children"))
    async def children(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.send, "One.")
            nursery.start_soon(chat.send, "Two.")

    @bot.conversation(text("risks"))
    async def risks(chat: Chat) -> None:
        try:
            await chat.send("Once at most.", on_unknown="raise")
        except DeliveryUnknownError:
            await chat.send("Perhaps.")

    @bot.conversation(text("asks"))
    async def asks(chat: Chat) -> None:
        name = await chat.ask("Name?")
        await chat.step(work, name)
        await chat.send(f"Hello {name}.")
        with chat.move_on_after(1000):
            size = await chat.choose("Size?", {"small": "Small", "large": "Large"})
            await chat.send(f"{name} gets {size}.")

    @bot.conversation(text("counts"))
    async def counts(chat: Chat) -> None:
        for _ in range(3):
            await chat.receive(text())
            chat.data[COUNT] += 1
            await chat.send(f"Now {chat.data[COUNT]}.")

    @bot.conversation(text("goes on after all"))
    async def after_all(chat: Chat) -> None:
        await chat.ask("Ready?")
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.send, "One.")
            nursery.start_soon(chat.send, "Two.")
        await chat.ask("Really?")
        await chat.continue_as(second, 4)

    @bot.conversation(text("waits elsewhere"))
    async def chat_calls(chat: Chat) -> None:
        await trio.sleep(100)
        await chat.send("Long ago.")

    return bot


# What is said to the bot; what it says in the end, if each line counts once; and the fewest acts.
SCENES: dict[str, tuple[Sequence[str], set[str], int]] = {
    "a continuation": (["goes on at once"], {"Part 2."}, 6),
    "a later one": (["goes on", "yes"], {"Ready?", "Part 3."}, 9),
    "a step": (["works"], {"Done, "}, 5),
    "children": (["children"], {"One.", "Two."}, 5),
    "a doubt": (["risks"], {"Once at most.", "Perhaps."}, 5),
    "a foreign await": (["waits elsewhere", "/cancel"], {"Cancelled."}, 7),
    "answers": (
        ["asks", "Ali", "[Large]"],
        {"Name?", "Hello Ali.", "Size?", "Ali gets large."},
        20,
    ),
    "answers that count": (["counts", "x", "y", "z"], {"Now 1.", "Now 2.", "Now 3."}, 15),
    "answers and children": (
        ["goes on after all", "yes", "really"],
        {"Ready?", "One.", "Two.", "Really?", "Part 4."},
        19,
    ),
    "company": (["works", "beside", "children"], {"Done, ", "I go beside.", "One.", "Two."}, 10),
}


async def play(
    monkeypatch: pytest.MonkeyPatch, at: int, said: Sequence[str]
) -> tuple[int, list[str], list[str]]:
    """Play a scene with a crash at its nth act; returns how many acts it had, what was heard, and done."""
    with monkeypatch.context() as patch:
        return await _play(EarlyKiller(patch, at), said)


async def _play(killer: EarlyKiller, said: Sequence[str]) -> tuple[int, list[str], list[str]]:
    done: list[str] = []
    async with drive(bot_of_beginners(done), attempts=100, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            for words in said:
                await (ali.presses(words[1:-1]) if words[0] == "[" else ali.says(words))
                if "beside" not in said:
                    await world.waits(seconds=5)
            await world.waits(seconds=300)
            killer.nursery = None
        assert await left_over(world) == []
        lines = (await world.transcript()).splitlines()
        heard = [line.partition(" ")[2].partition(" <")[0] for line in lines if line.startswith("bot")]
        return killer.count, [line.partition(" ")[2] for line in heard], done


async def left_over(world: DrivenWorld) -> list[object]:
    store = store_of(world)
    return [
        *await store.backlog(after=0, limit=9),
        *await store.all_conversations(after=0, limit=9),
    ]


@pytest.mark.parametrize("scene", SCENES)
async def test_whatever_it_does_first_it_goes_on_after_any_crash(
    scene: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: object, long: bool
) -> None:
    """Nothing is lost or left over, and only what was on its way is heard once more, word for word."""
    said, expected, fewest = SCENES[scene]
    acts, _, _ = await play(monkeypatch, 0, said)
    assert acts >= fewest
    for at in range(1, acts + 1, 1 if long else EVERY):
        _, heard, done = await play(monkeypatch, at, said)
        words = {"Done, " if line.startswith("Done, ") else line for line in heard}
        if scene == "a doubt":
            assert words and words <= expected
        else:
            assert words == expected, f"killed at act {at}"
        assert len(set(heard)) == len(words)
        assert len(heard) <= len(expected) + 1
        assert len(done) <= 2

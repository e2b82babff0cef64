"""Twins: real processes that run journals again, and are killed when they don't answer."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.loopback import PATIENCE
from tests.passing import SCHEMA
from tests.schema import wrong
from triobot.emulator.views import JsonObject
from triobot.engine import Record, encode_record
from triobot.studio.errors import TravelError
from triobot.studio.travel import pool as module
from triobot.studio.travel.parting import worded
from triobot.studio.travel.twin import KEPT, LARGEST
from triobot.studio.travel.twins import Twins
from triobot.wire.rules import compact_json

pytestmark = [pytest.mark.processes, pytest.mark.virtual_time(False)]

BOT = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    answers = []
    while True:
        answers.append(await chat.ask("More?"))
"""
ASKS = 'answers.append(await chat.ask("More?"))'
TURNS = """\
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""
ENVIRON = {
    **{name: value for name, value in os.environ.items() if not name.startswith("TRIOBOT_")},
    "TRIOBOT_TOKEN": "token",
    "TRIOBOT_BASE_URL": "http://127.0.0.1:9",
    "TRIOBOT_STORE": "memory:",
}


def journal(answers: int, chat_id: int = 5, letters: int = 5) -> list[JsonObject]:
    """A journal of `talk`, as an operator is told it."""
    begin, now = 1700000000000, 1700000000000
    began = [{"class": ["triobot.Join", {"chat_id": chat_id, "sender": None}]}, 7, None]
    records: list[Record] = [["S", begin, "bot.talk", began, "aa", 1]]
    for n in range(answers):
        now += 1_000
        records += [
            ["D", now, 2 * n + 1, "send sendMessage", "", {"sent": [chat_id, n + 1]}],
            [
                "D",
                now,
                2 * n + 2,
                "receive",
                "",
                {"said": [chat_id, f"{n:0{letters}}", 7, "Sara", "sara", n + 2, now]},
                n + 2,
            ],
        ]
    row = {
        "conversation": 1,
        "chat_id": chat_id,
        "route": "bot.talk",
        "kind": "conversation",
        "version": "1",
        "sender_id": None,
        "key": None,
        "run": 1,
        "unfinished": False,
        "wake_at": None,
        "parked_because": None,
        "error": None,
        "in_hand": 0,
        "position": len(records),
        "started_at": begin,
        "updated_at": now,
    }
    return [row, *({"n": n, "record": encode_record(record)} for n, record in enumerate(records))]


class FakeJournals:
    """One chat with one conversation."""

    def __init__(self, lines: Sequence[JsonObject]) -> None:
        self.lines = lines

    async def conversations(self, chat_id: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        ended = {**self.lines[0], "conversation": 2, "ended_at": 1, "error": None}
        crashed = {**self.lines[0], "conversation": 3, "ended_at": 1, "error": "failed"}
        parked = {**self.lines[0], "conversation": 4, "parked_because": "unfit"}
        return [self.lines[0], ended, crashed, parked]

    async def journal(self, conversation: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        if conversation != 1:
            raise TravelError("there is no such conversation")
        return self.lines

    async def code(self) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return []

    async def end(self, conversation: int) -> None:
        await self.journal(conversation)
        self.lines = [{**self.lines[0], "ended_at": 2}, *self.lines[1:]]

    async def waiting(self) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.lines[:1]

    def marks(self, since: int) -> Sequence[JsonObject]:
        return [{"t": since + 1, "what": "kill"}]


class Rig:
    def __init__(self, twins: Twins, file: Path, journals: FakeJournals) -> None:
        self.twins = twins
        self.file = file
        self.journals = journals

    def write(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    async def open(self) -> str:
        told: Any = await self.twins.open(5, 1)
        return str(told["id"])

    async def ready(self, id: str) -> dict[str, Any]:
        """A pass's head, once it is there."""
        with trio.fail_after(PATIENCE):
            while "format" not in (head := self.twins.passed(id)):
                await trio.sleep(0.01)
        return dict(head)

    async def opened(self) -> str:
        id = await self.open()
        await self.ready(id)
        return id

    async def notches(self, id: str, start: int, end: int = 9_999) -> dict[str, Any]:
        told: Any = await self.twins.notches(id, start, end)
        return dict(told)


@asynccontextmanager
async def twins_of(
    tmp_path: Path,
    lines: Sequence[JsonObject],
    wait_up: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
) -> AsyncGenerator[Rig]:
    file, journals = tmp_path / "bot.py", FakeJournals(lines)
    file.write_text(BOT, encoding="utf-8")
    command = [sys.executable, "-m", "triobot.studio.commands.twin", "dev"]
    twins = Twins(command, ENVIRON, f"{file}:bot", journals, lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(twins.pool.run, wait_up)
        await trio.testing.wait_all_tasks_blocked()
        yield Rig(twins, file, journals)
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.cold
async def test_a_pass_in_another_process(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(300)) as rig:
        id = await rig.open()
        head = await rig.ready(id)

        assert wrong(head, SCHEMA["$defs"]["head"], SCHEMA) is None
        assert (head["id"], head["state"], head["notches"]) == (id, "waits", 601)
        assert head["marks"] == [{"t": 1700000000001, "what": "kill"}]
        assert [one["ready"] for one in rig.twins.view()] == [True]  # type: ignore[index,call-overload]

        # The newest first, as a page asks; each window begins with a whole state.
        last, first = await rig.notches(id, 345), await rig.notches(id, 0, 10)
        assert (last["from"], last["to"], len(last["notches"])) == (345, 601, 256)
        assert last["notches"][0]["whole"] is True
        assert last["notches"][0]["v"][""][0]["answers"].startswith("['00000', '00001'")
        assert len(first["notches"]) == 10
        assert await rig.notches(id, 601) == {"from": 601, "to": 601, "notches": []}

        rig.write("# other code\n")
        assert await rig.twins.source(id, 0) == BOT
        with pytest.raises(TravelError) as caught:
            await rig.twins.source(id, 7)
        assert not caught.value.gone
        await rig.twins.close(id)
        with pytest.raises(TravelError, match="open it again"):
            rig.twins.passed(id)


async def test_new_code_is_run_by_another_process(tmp_path: Path) -> None:
    """The pass of the old code stays until the next change."""
    asks = "await chat.ask"
    async with twins_of(tmp_path, journal(2)) as rig:
        old = await rig.opened()
        rig.write(BOT.replace(asks, f"await chat.sleep(1) or {asks}"))
        rig.twins.pool.changed()
        new = await rig.opened()

        assert (await rig.ready(old))["state"] == "waits"
        assert (await rig.ready(new))["divergence"]["operation"] == "1"
        assert (await rig.notches(old, 0))["to"] == 5
        rig.write(BOT)
        rig.twins.pool.changed()
        assert (await rig.ready(await rig.opened()))["state"] == "waits"
        with pytest.raises(TravelError) as caught:
            await rig.notches(old, 0)
        assert caught.value.gone


async def test_code_that_can_not_be_loaded_is_told(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(2)) as rig:
        rig.write("def broken(:\n")
        id = await rig.open()
        with trio.fail_after(PATIENCE):
            while not rig.twins.view()[0]["failed"]:  # type: ignore[index,call-overload]
                await trio.sleep(0.01)
        with pytest.raises(TravelError, match="SyntaxError"):
            rig.twins.passed(id)
        rig.write(BOT)
        assert (await rig.ready(await rig.opened()))["state"] == "waits"


@pytest.mark.slow
async def test_one_that_does_not_answer_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that never ends, and catches what is to end it; the next pass is in a process of its own."""
    async with twins_of(tmp_path, journal(2)) as rig:
        before = await rig.opened()
        rig.write(BOT.replace("    while True:\n", TURNS, 1))
        rig.twins.pool.changed()
        await trio.sleep(0)
        monkeypatch.setattr(module, "SECONDS", 1.0)
        hangs = await rig.open()
        with trio.fail_after(PATIENCE):
            while not rig.twins.view()[-1]["failed"]:  # type: ignore[index,call-overload]
                await trio.sleep(0.01)
        with pytest.raises(TravelError, match=r"was killed|open it again"):
            rig.twins.passed(hangs)
        monkeypatch.undo()
        assert (await rig.ready(before))["state"] == "waits"
        rig.write(BOT)
        rig.twins.pool.changed()
        assert (await rig.ready(await rig.opened()))["state"] == "waits"


async def test_the_oldest_passes_are_forgotten(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(2)) as rig:
        first, *others = [await rig.opened() for _ in range(KEPT + 1)]
        with pytest.raises(TravelError):
            await rig.notches(first, 0)
        assert [(await rig.notches(id, 0))["to"] for id in others] == [5] * KEPT


@pytest.mark.slow
async def test_an_answer_has_a_megabyte_at_most(tmp_path: Path) -> None:
    """A window of large texts has fewer notches; a page goes on from where it ends."""
    async with twins_of(tmp_path, journal(256, letters=7_000)) as rig:
        id, start, seen = await rig.opened(), 0, 0
        while start < 513:
            told = await rig.notches(id, start, 513)
            assert len(compact_json(told)) <= LARGEST + 1_000
            seen += len(told["notches"])
            start = told["to"]
        assert seen == 513


async def test_a_chat_has_conversations_of_all_kinds(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(2)) as rig:
        told: Any = await rig.twins.conversations(5)
        states = [(one["conversation"], one["state"]) for one in told["conversations"]]
        assert states == [(4, "parked"), (3, "crashed"), (2, "ended"), (1, "waits")]
        for chat_id, conversation in ((6, 1), (5, 9)):
            with pytest.raises(TravelError, match="no such conversation"):
                await rig.twins.open(chat_id, conversation)


async def test_they_end_with_their_parent(tmp_path: Path) -> None:
    pids: list[int] = []
    async with twins_of(tmp_path, journal(2)) as rig:
        await rig.opened()
        pool = rig.twins.pool
        pids = [one.process.pid for one in (*pool._loaded.values(), pool._waiting) if one is not None]
        assert pids
    alive: Callable[[int], bool] = lambda pid: Path(f"/proc/{pid}").exists()  # noqa: E731
    assert [pid for pid in pids if alive(pid)] == []


async def test_one_process_waits_for_the_next_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the first is still being started when a pass is opened: that one waits then."""
    starts, real, may_start = list[object](), trio.lowlevel.open_process, trio.Event()

    async def slow(*command: Any, **options: Any) -> trio.Process:
        starts.append(command)
        if len(starts) == 1:
            await may_start.wait()
        return await real(*command, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", slow)
    async with twins_of(tmp_path, journal(2)) as rig:
        await rig.opened()
        may_start.set()
        with trio.fail_after(PATIENCE):
            while rig.twins.pool._waiting is None:
                await trio.sleep(0.01)
        rig.twins.pool.changed()
        await rig.opened()
        with trio.fail_after(PATIENCE):
            while rig.twins.pool._waiting is None:
                await trio.sleep(0.01)
    assert len(starts) == 3  # one for each code, and one that waits


async def test_nothing_waits_where_one_pass_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts, real = list[object](), trio.lowlevel.open_process

    async def counted(*command: Any, **options: Any) -> trio.Process:
        starts.append(command)
        return await real(*command, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", counted)
    async with twins_of(tmp_path, journal(2), wait_up=trio.sleep_forever) as rig:
        await rig.opened()
    assert len(starts) == 1


async def test_code_is_compared_with_a_journal_that_has_no_lines(tmp_path: Path) -> None:
    """An earlier version recorded it: its operations are compared by their places and kinds."""
    async with twins_of(tmp_path, journal(1)) as rig:
        rig.write(BOT.replace("    answers = []\n", '    answers = []\n    await chat.send("Welcome!")\n'))
        rig.twins.pool.changed()

        fits, texts, (told,) = await rig.twins.compare(await rig.twins.journals_now())

        assert (fits, texts, told["was"], told["now"]["code"]) == (0, [], None, ASKS)
        assert worded(told) == f"at notch 1: was another line, is `{ASKS}` in line 11"
        rig.write(BOT)
        rig.twins.pool.changed()
        assert await rig.twins.compare(await rig.twins.journals_now()) == (1, [], [])

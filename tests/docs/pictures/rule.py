"""The one rule: what a journal gives back to the code that is run again, and how code can miss it.

Two bots are driven and killed. What the drawings show of their journals is what was recorded.
"""

from __future__ import annotations

import inspect
import json
import random
import re
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain, repeat
from textwrap import dedent, wrap
from typing import Final, NamedTuple, TypeAlias
from unittest.mock import patch

import trio

from triobot import Bot, Chat
from triobot.testing import drive, run
from triobot.testing.promises import BrokenPromise, journals_of
from triobot.wire.ids import ChatId

from .svg import WIDTH, Drawing, Tone

_CODE, _RECORD, _ROW = 14, 308, 28
_LETTERS: Final = 7.23
"""How wide a letter of the code is, at most."""


async def cost(pizza: str) -> int:
    await trio.lowlevel.checkpoint()
    return 250_000


async def order(chat: Chat) -> None:
    pizza = await chat.ask("Pizza?")
    price = await chat.step(cost, pizza)
    await chat.send(f"{price} rials.")
    await chat.ask("Street?")


async def toss(chat: Chat) -> None:
    if random.random() < 0.5:
        await chat.send("Heads!")
    await chat.ask("Again?")


_Talk: TypeAlias = Callable[[Chat], Coroutine[object, object, None]]


class Record(NamedTuple):
    """A record of a journal: of which operation, and what came of it."""

    kind: str
    outcome: str


# What each operation of the chat records, in its order.
_RECORDS: Final = {"ask": ("send", "receive"), "send": ("send",), "step": ("step",)}


def _body(talk: _Talk) -> list[str]:
    """Return the lines of a function without its first one, which says nothing that matters here."""
    return dedent(inspect.getsource(talk).partition("\n")[2]).rstrip("\n").split("\n")


def _operations(line: str) -> tuple[str, ...]:
    found = re.search(r"\bchat\.(\w+)\(", line)
    return _RECORDS.get(found[1], ()) if found else ()


async def _journal(bot: Bot, chat_id: ChatId) -> tuple[list[Record], str]:
    """Return the records of the conversation's operations, and why it is parked."""
    [[head, *lines]] = await journals_of(bot, BrokenPromise("", "", chat_id))
    records = [json.loads(str(line["record"])) for line in lines]
    return [_told(record) for record in records if record[0] == "D"], str(head["parked_because"] or "")


def _told(record: Sequence[object]) -> Record:
    match record:
        case [_, _, _, "step", _, value, *_]:
            return Record("step", str(value))
        case [_, _, _, "receive", _, {"said": [_, str(text), *_]}, *_]:
            return Record("receive", f'"{text}"')
        case [_, _, _, str(kind), *_] if kind.startswith("send "):
            return Record("send", "sent")
        case _:
            raise ValueError(f"no drawing shows the record {record}")


def _kept() -> list[Record]:
    """Return the journal of `order` while it waits, which a kill neither shortens nor adds to."""
    bot = Bot()
    bot.conversation(order)
    journals: list[list[Record]] = []

    async def life() -> None:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Pizza?")
            await sara.says("thin")
            await sara.sees("Street?")
            await world.waits(seconds=1)
            journals.append((await _journal(bot, sara.chat_id))[0])
            await world.crashes()
            await sara.sees_nothing(within=60)
            journals.append((await _journal(bot, sara.chat_id))[0])

    run(life)
    before, after = journals
    if before != after:
        raise ValueError(f"a restart made {after} of the journal {before}")
    return before


def _lost() -> tuple[list[Record], str]:
    """Return the journal of `toss` when it was killed, and why it was parked when it was run again."""
    bot = Bot()
    bot.conversation(toss)
    found: list[tuple[list[Record], str]] = []

    async def life() -> None:
        async with drive(bot, replay_check=False) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Again?")
            await world.waits(seconds=1)
            found.append(await _journal(bot, sara.chat_id))
            await world.crashes()
            await sara.says("Yes")
            await world.waits(seconds=1)
            found.append(await _journal(bot, sara.chat_id))
            world.takes_alarm("conversation_parked")

    with patch("random.random", side_effect=chain([0.2], repeat(0.8))):
        run(life)
    (journal, _), (_, why) = found
    return journal, why


def _head(drawing: Drawing, top: float, words: str) -> float:
    drawing.text((_CODE, top), words, kind="name")
    drawing.text((_CODE, top + 20), "the code", tone="soft")
    drawing.text((_RECORD, top + 20), "its journal", tone="soft")
    return top + 28


def _given(
    drawing: Drawing, y: float, line: str, record: str, *, again: bool, beside: bool, tone: Tone = ""
) -> None:
    """Draw a record; `beside` the line of its operation with an arrow, else below the record before."""
    drawing.box((_RECORD, y + 2), (WIDTH - _RECORD - 12, 24), record, kind="code", tone=tone)
    if beside:
        from_code, to_record = (_CODE + len(line) * _LETTERS + 4, y + 14), (_RECORD - 3, y + 14)
        drawing.arrow(*((to_record, from_code) if again else (from_code, to_record)), tone=tone or "good")


def _run(drawing: Drawing, top: float, talk: _Talk, records: Sequence[Record], *, again: bool) -> float:
    """Draw a run that its journal fits: each line, and beside it what it has recorded, or is given."""
    left, y = deque(enumerate(records, 1)), top
    for line in _body(talk):
        drawing.text((_CODE, y + 18), line, kind="code")
        operations = _operations(line)
        for operation in operations:
            if not left:
                drawing.text((_RECORD + 4, y + 18), "waits", tone="soft")
            else:
                number, record = left.popleft()
                if record.kind != operation:
                    raise ValueError(f"{line!r} records a {operation}, and the journal has a {record.kind}")
                beside = operation == operations[0]
                _given(drawing, y, line, f"{number}  {record.outcome}", again=again, beside=beside)
            y += _ROW
        if not operations:
            y += _ROW
    return y


def _killed(drawing: Drawing, y: float) -> float:
    drawing.arrow((12, y + 22), (WIDTH - 12, y + 22), tone="bad", head=False)
    drawing.text((WIDTH / 2, y + 17), "kill -9", tone="bad", anchor="middle")
    return y + 48


def draw_replay() -> str:
    """Return the drawing of a restart."""
    records = _kept()
    drawing = Drawing(
        "What a restart does",
        "On the left the code of a conversation, on the right its journal: "
        f"{', '.join(record.outcome for record in records)}. In the first run each operation writes its "
        "record. After kill -9 the code runs again from its first line, and each operation is given its "
        "record: nothing is sent, asked or fetched again. Then the conversation waits where it waited.",
    )
    end = _run(drawing, _head(drawing, 26, "1. Each operation writes a record."), order, records, again=False)
    top = _head(drawing, _killed(drawing, end), "2. The code runs again, and is given the records.")
    drawing.height = _run(drawing, top, order, records, again=True) + 14
    return drawing.svg()


def draw_broken() -> str:
    """Return the drawing of code that goes another way when it is run again."""
    records, why = _lost()
    said = why.partition(": the code is not")[0]
    drawing = Drawing(
        "What breaks the rule",
        "The code of a conversation tosses a coin by itself. In the first run it is heads: the code sends "
        "two texts, and two records are in its journal. After kill -9 it is tails: the code skips the first "
        f"send, and the journal fits no more. The conversation is parked: {said}.",
    )
    top = _head(drawing, 26, "1. Heads: the code sends twice.")
    end = _run(drawing, top, toss, records, again=False)
    y = _head(drawing, _killed(drawing, end), "2. Tails: the code skips the first send.")
    *skipped, line = _body(toss)
    for n, old in enumerate(skipped):
        drawing.text((_CODE, y + 18 + _ROW * n), old, kind="code", tone="soft" if n else "")
    y += _ROW * len(skipped)
    drawing.text((_CODE, y + 18), line, kind="code")
    _given(drawing, y, line, f"1  {records[0].outcome}", again=True, beside=True)
    drawing.text((_CODE, y + _ROW + 18), "    and now its answer?", kind="code", tone="bad")
    _given(drawing, y + _ROW, " " * 23, f"2  {records[1].outcome}", again=True, beside=True, tone="bad")
    words = wrap(f"Parked: {said}.", 50)
    drawing.lines((_CODE, y + 2 * _ROW + 24), words, tone="bad")
    drawing.height = y + 2 * _ROW + 24 + 15 * len(words)
    return drawing.svg()

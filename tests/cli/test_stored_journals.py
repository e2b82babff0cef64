"""What the page asks of a bot's store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
import trio
import trio.testing
from attrs import frozen

from triobot.operator.api import Tell
from triobot.operator.routes import Question
from triobot.studio.stored_journals import StoredJournals


@frozen
class Payments:
    """A bot whose payments, each of a conversation, come two at a time, by their ids."""

    made: Mapping[str, int]

    async def ask(self, question: Question, tell: Tell) -> None:
        after = question.get("after")
        ids = [ref for ref in sorted(self.made) if after is None or ref > str(after)][:2]
        await tell({"payments": [{"ref": ref, "conversation": self.made[ref]} for ref in ids]})


@pytest.mark.parametrize("newest", ["a", "c", "e"])
async def test_money_that_was_asked_for_is_found_on_every_page(newest: str) -> None:
    made = dict.fromkeys("abcde", 10) | {newest: 20}
    journals = StoredJournals(Payments(made).ask, lambda since: [])

    assert await journals.has_payments(7, 20)
    assert not await journals.has_payments(7, 21)


@frozen
class Conversations:
    """A bot with so many conversations, of which the newest but for one has ended, and one is parked."""

    many: int

    async def ask(self, question: Question, tell: Tell) -> None:
        after, limit = cast("int", question["after"]), cast("int", question["limit"])
        for number in range(after + 1, min(self.many, after + limit) + 1):
            row = {"conversation": number, "ended_at": None, "parked_because": None, "updated_at": number}
            if number == self.many - 1:
                row["ended_at"] = 1
            if number == 7:
                row["parked_because"] = "its code"
            if number == 3:  # it is the oldest, and somebody talks to it
                row["updated_at"] = 10_000
            await tell(row)


async def test_all_that_goes_on_is_known_and_last_what_is_used(many: int = 2_345) -> None:
    journals = StoredJournals(Conversations(many).ask, lambda since: [])

    waiting = [row["conversation"] for row in await journals.waiting()]

    assert len(waiting) == many - 2
    assert waiting[-3:] == [many - 2, many, 3]
    assert 7 not in waiting


async def test_a_question_waits_while_a_process_opens_the_store() -> None:
    """Each would find it in use by the other; and the process would end."""
    opening, answered = trio.Semaphore(1), list[bool]()
    journals = StoredJournals(Payments({"a": 20}).ask, lambda since: [], opening=opening)

    async def look() -> None:
        answered.append(await journals.has_payments(7, 20))

    async with trio.open_nursery() as nursery:
        await opening.acquire()
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        assert answered == []
        opening.release()
    assert answered == [True]

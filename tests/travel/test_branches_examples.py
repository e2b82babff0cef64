"""At each notch of what a crowd did with the examples: the recorded answer leads on as it did then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import library
from trio.testing import MockClock

from tests import samples
from triobot import Bot
from triobot.cli.loading import load_bot
from triobot.conversations.revival.stored import Stored
from triobot.engine import Record, decode_record
from triobot.engine.records import INTERRUPTED, OUTCOMES, START, TURNS, time_of
from triobot.errors import ConfigError
from triobot.studio.travel.answers import PastAnswer, give, given_at
from triobot.studio.travel.branches import LiveBranch, open_branch
from triobot.studio.travel.past import notch_starts
from triobot.testing import Plan, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
LONGEST = 40


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder; examples that were imported are forgotten, for they have state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == EXAMPLES:
            del sys.modules[name]


def turns(records: list[Record]) -> list[Record]:
    return [record for record in records if record[0] in TURNS or record[0] == START]


def told(record: Record) -> tuple[object, ...]:
    """What a turn is about, without the ids and times that another platform gives."""
    return (
        (record[0], str(record[2]), record[3]) if record[0] in OUTCOMES else (record[0], str(record[2])[:9])
    )


async def come_to(branch: LiveBranch, stored: Stored, notch: int) -> None:
    """Do what was done in the turn behind a notch, unless it comes by itself."""
    place = notch_starts(stored.records)[notch + 1]
    record, given = stored.records[place], given_at(stored, place)
    # Not a moment too early for what waits for it, and in time for what it comes before.
    late = time_of(record) - branch.now + (0 if given is not None else 2)
    if late > 0:
        await branch.waits(late / 1000)
    if given is not None:
        await give(branch, PastAnswer(time_of(record), given))


async def leads_on(bot: Bot, stored: Stored, beside: list[Stored], notch: int) -> None:
    """LiveBranch at a notch: what comes next is what came next then."""
    begins = notch_starts(stored.records)
    recorded = [stored.records[place] for place in begins]
    with library() as kept:
        async with open_branch(bot, stored, notch, beside=beside) as branch:
            if len(notch_starts(branch.past.stored.records)) <= notch:
                return  # a payment is under way at the notch, and the charge begins again

            async def known() -> list[Record]:
                journal = await branch.journal()
                if journal is not None:
                    return turns([decode_record(line) for line in journal.records])
                return turns(list(kept.all()[stored.row.id].records))

            if len(await known()) <= notch + 1 and not branch.ended:
                await come_to(branch, stored, notch)
            now, ended = (await known())[notch + 1 :], branch.ended
    came = told(recorded[notch + 1]) in [told(record) for record in now]
    # What ends well may have no record of what came last.
    assert came or (ended and not branch.failures), (
        f"{stored.row.route} {stored.row.id}, notch {notch}: {recorded[notch + 1]}, and now {now[:3]}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", samples.sample(NAMES))
async def test_the_recorded_answer_leads_to_the_next_notch(name: str, autojump_clock: MockClock) -> None:
    bot = load_bot(f"{EXAMPLES / name}.py:bot")
    with library() as kept:
        await simulate(bot, Plan(seed=3, chats=4, groups=1, hours=3, crashes=0, faults=0))
    journals = kept.all()
    longest = sorted(journals.values(), key=lambda one: -len(one.records))[: samples.examples(8, every=8)]
    tried = 0
    for stored in longest:
        beside = [one for one in journals.values() if one.row.chat_id == stored.row.chat_id]
        many = min(len(notch_starts(stored.records)) - 1, samples.examples(LONGEST, every=8))
        for notch in range(many):
            # The journal doesn't have what interrupted it.
            if stored.records[notch_starts(stored.records)[notch + 1]][0] != INTERRUPTED:
                try:
                    await leads_on(bot, stored, [one for one in beside if one is not stored], notch)
                except ConfigError as error:  # none begins in what gives for a payment
                    assert "and pay in the branch" in str(error)
                tried += 1
    assert tried or all(len(notch_starts(one.records)) == 1 for one in longest)

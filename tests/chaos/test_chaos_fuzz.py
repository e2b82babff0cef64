"""Random conversations through a whole bot that is killed. Many more runs: ``python -m tests.chaos.fuzz``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.everything import missing
from tests.samples import sample
from triobot.conversations.revival import stored
from triobot.conversations.revival.stored import read_journal
from triobot.engine import Record
from triobot.seams.inbox import InboxRow
from triobot.seams.journals import Journal
from triobot.testing.process import CrashableStore
from triobot.wire.ids import ChatId

from . import fuzz
from .fuzz import check
from .talks import Body, Maker, Node

SEEDS = range(4)
SOME = sample(SEEDS, every=2)
SHOWS_SOON = 5
"""A seed by which either defect is found out in a second; the others take up to a minute."""


@pytest.mark.parametrize("wild", [False, True], ids=["equal", "wild"])
def test_no_kill_changes_what_people_see(wild: bool) -> None:
    assert [(seed, wrong) for seed in SOME if (wrong := check(seed, wild=wild))] == []


@pytest.mark.parametrize("seed", SOME)
def test_no_kill_breaks_a_program_that_has_everything(seed: int) -> None:
    assert check(seed, wild=True, every=True) is None


def test_programs_have_everything() -> None:
    """All that is public is among what a node may be."""
    nodes = [Maker(f"talk {seed}", wild=True, every=True).body(3, 20) for seed in range(60)]
    named = {node[3] for body in nodes for node in _flat(body) if node[0] == "every"}
    assert missing(named) == set()


def _flat(body: Body) -> Iterator[Node]:
    for node in body:
        yield node
        if len(node) > 4:
            yield from _flat(node[4])
            for each in node[5]:
                yield from _flat(each)


@pytest.mark.slow
def test_a_store_that_forgets_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: a journal that is read without its end makes people hear it again."""

    def read_short(journal: Journal) -> list[Record]:
        records = read_journal(journal)
        return records[:1] + records[1:-3]

    monkeypatch.setattr(stored, "read_journal", read_short)

    assert any(_goes_wrong(seed) for seed in (SHOWS_SOON, *SEEDS))


@pytest.mark.slow
def test_an_event_that_a_kill_loses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_short(store: CrashableStore, *, after: int, limit: int) -> Sequence[InboxRow]:
        rows = await store._inner.backlog(after=after, limit=limit)
        return rows[after == 0 :]

    monkeypatch.setattr(CrashableStore, "backlog", read_short, raising=False)
    monkeypatch.setattr(fuzz, "OTHERS", 1)

    assert _goes_wrong(SHOWS_SOON)


@pytest.mark.slow
def test_events_that_change_places_at_a_kill_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_crossed(store: CrashableStore, chat: ChatId, **which: int) -> Sequence[InboxRow]:
        rows = await store._inner.pending(chat, **which)
        others = [*rows[1::-1], *rows[2:]]
        return [attrs.evolve(row, body=other.body) for row, other in zip(rows, others, strict=True)]

    monkeypatch.setattr(CrashableStore, "pending", read_crossed, raising=False)
    monkeypatch.setattr(fuzz, "OTHERS", 1)
    kill = fuzz.Kill(burst=6, steps=25)  # while three texts wait for four branches

    assert "not said" in str(check(19, wild=False, kills=[kill]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kills"),
    [
        *((7, None), (19, [fuzz.Kill(write=50)]), (55, None), (40055, None)),
        *((120006, None), (120398, None)),
    ],
)
def test_what_no_kill_is_needed_for_is_no_difference(seed: int, kills: Sequence[fuzz.Kill] | None) -> None:
    """Two branches that say something at once; an event that comes late, when another branch waits; two
    events that are given out at once; a question that is there twice; an event that comes in the middle of
    what the one before brings about.
    """
    assert check(seed, wild=False, kills=kills) is None


def _goes_wrong(seed: int) -> bool:
    try:
        return check(seed, wild=False) is not None
    except Exception:
        return True


def test_the_command_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.fuzz", "--seeds", "1", "--first", "20", "--mode", "equal"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 runs, 0 failures" in done.stdout

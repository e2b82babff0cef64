"""Changed code under open conversations, in the runtime itself; the dry run and the revival say the same."""

from __future__ import annotations

from contextlib import ExitStack

import doubles
import pytest
from changes_of_form import FORMS
from changes_of_more import MORE
from changes_of_uses import USES
from changes_of_values import VALUES
from changes_of_ways import WAYS
from deployed import deploy, only, verdict_of
from doubles import FakeOutbox, FakeStore
from town import CHAT, open_town
from trio.testing import MockClock

from tests.exact.changes import CHANGES, Change
from tests.exact.small import Loaded
from tests.postgres import Server
from tests.samples import takes_all
from tests.store.postgres_rows import PostgresRows
from triobot.base.clock import WallClock
from triobot.conversations.routes.router import Router, table_of
from triobot.filters import text
from triobot.store import Store

REAL = [*(change for change in CHANGES if change.name[:3] != "d09"), *MORE, *VALUES, *FORMS, *USES, *WAYS]
"""A step's function has no former names."""
SOME = list({**{change.name[0]: change for change in REAL}, **dict(enumerate(REAL[::10]))}.values())
"""One of each kind, and each tenth."""


@pytest.mark.slow
@pytest.mark.parametrize("change", REAL, ids=lambda change: change.name)
async def test_each_person_goes_on_with_what_was_meant_or_is_parked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    only(monkeypatch)
    found = await deploy(change)
    told = [(one.verdict, str(one.parting), one.parked) for one in found]
    expected = change.expect[: len(found)]
    assert len(found) == len(change.expect) or (found and change in CHANGES)  # who has come to the end here
    assert "".join(one.verdict for one in found) == expected, told
    for letter, one in zip(expected, found, strict=True):
        assert one.parked is (letter == "P"), told


@pytest.mark.slow
@pytest.mark.parametrize("change", SOME if takes_all() else SOME[::5], ids=lambda change: change.name)
async def test_postgresql_keeps_what_tells(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, postgres_server: Server, change: Change
) -> None:
    """Sources, sites, builds and where each conversation rests, in a real server."""
    only(monkeypatch)
    rows, opened = PostgresRows(postgres_server), ExitStack()
    monkeypatch.setattr(doubles, "MemoryRows", lambda: rows)
    open_rows = rows.open

    def open_alone(clock: WallClock) -> Store:
        """Have the thread that looks after the session wait: the doubles read over the session, too."""
        store = open_rows(clock)
        opened.enter_context(rows.turn)
        return store

    monkeypatch.setattr(rows, "open", open_alone)
    try:
        found = await deploy(change)
    finally:
        opened.close()
        rows.close(doubles.FakeClock().now())
    told = [(one.verdict, str(one.parting), one.parked) for one in found]
    expected = change.expect[: len(found)]
    assert [(one.verdict, one.parked) for one in found] == [(one, one == "P") for one in expected], told


def test_there_are_changes_enough() -> None:
    """At most a tenth of those that are free for a reader park anybody."""
    free = [change for change in REAL if "P" not in (change.truth or change.expect)]
    assert len(REAL) >= 140
    assert sum("P" in change.expect for change in free) * 10 <= len(free)


STARTS = """async def book(chat, a, b):
    c = await chat.ask("C?")
    await chat.send(f"{a} {b} {c}")

async def order(chat):
    await chat.start(book, "x", "y")
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [("b, a", None), ("c, a, b=1", None), ("one, b", "x y c"), ("a, b, c=1", "x y c")],
)
async def test_what_a_route_was_started_with_keeps_its_place(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str | None
) -> None:
    """No record says to which argument a value went, so the sources do."""
    only(monkeypatch)
    store, outbox = FakeStore(), FakeOutbox()

    def build(source: str) -> Router:
        module, router = Loaded({"shop": source}), Router()
        router.interrupt(text("hi"), name="shop.order")(module.find("shop.order"))
        router.aside(name="shop.book")(module.find("shop.book"))
        return router

    async with open_town(build(STARTS), store=store, outbox=outbox, code=True) as town:
        await town.says("hi")
    now = STARTS.replace("a, b)", f"{arguments})")
    router = build(now.replace("{a}", "{one}") if "one" in now else now)
    (row,) = await store.conversations(CHAT)
    verdict, _ = await verdict_of(store, table_of(router), row)
    async with open_town(router, store=store, outbox=outbox, code=True) as town:
        await town.says("c")
        parked = [one.parked_because is not None for one in await store.conversations(CHAT)]
        told = town.sent()[-1]
    assert (verdict, parked) == (("P", [True]) if said is None else ("S", []))
    assert said is None or told == said


async def test_words_and_use_changed_at_once_can_be_accepted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch)
    change = next(one for one in WAYS if one.name.startswith("z01"))
    assert {str(one.parting).rpartition(" ")[0][-22:] for one in await deploy(change)} == {
        "triobot journal accept"
    }

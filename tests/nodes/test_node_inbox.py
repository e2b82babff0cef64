"""What is handed on to another process: in order a chat, for two seconds, and not without bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.loopback import text_event
from triobot.errors import StoreCorruptError
from triobot.nodes.doors import Doors
from triobot.nodes.inbox import HOLD_SECONDS, MOST_HELD, NodeInbox
from triobot.nodes.owners import NoOwnerError
from triobot.shards import shard_of
from triobot.webhook.inbox import EventStored, Inbox, Outcome, Unreached, Unwritable
from triobot.wire.ids import ChatId

FORM = "application/x-www-form-urlencoded"
SHARDS = 4
HERE = 0


@attrs.define
class Away:
    """The process with all other shards, as a test wants it.

    Attributes:
        up: it answers; else there is no owner.
        full: so many are under way that it takes no more.
        taken: what it has stored, in order.
        acknowledged: the keys of deliveries whose 200 was written.
        forgets: so many of the next answers are lost behind the commit, as when it dies then.
        broken: it can't store anything.
    """

    up: bool = True
    full: bool = False
    taken: list[bytes] = attrs.Factory(list[bytes])
    acknowledged: list[tuple[int, str]] = attrs.Factory(list[tuple[int, str]])
    forgets: int = 0
    broken: bool = False
    seconds: float = 0.0

    def node_of(self, shard: int) -> int:
        return 1

    def is_full(self, shard: int) -> bool:
        return self.full

    async def hand_on(self, shard: int, content_type: str, body: bytes, until: float) -> Outcome:
        await trio.sleep(self.seconds)
        if self.broken:
            raise StoreCorruptError("the owner's disk is gone")
        if not self.up:
            raise NoOwnerError
        repeated = body in self.taken
        if not repeated:
            self.taken.append(body)
        if self.forgets:
            self.forgets -= 1
            raise NoOwnerError
        return EventStored(repeated, f"event:{_chat_in(body)}:digest")

    def answered(self, shard: int, key: str) -> None:
        self.acknowledged.append((shard, key))


def _chat_in(body: bytes) -> int:
    return int(body.split(b"&")[0].removeprefix(b"chat_id="))


@attrs.define
class Here:
    """The inbox of this process's own shard."""

    taken: list[bytes] = attrs.Factory(list[bytes])
    acknowledged: list[EventStored] = attrs.Factory(list[EventStored])
    closed: bool = False
    unwritable: bool = False
    slow: trio.Event | None = None

    async def accept(self, content_type: str, body: bytes, event: object = None) -> Outcome:
        await trio.lowlevel.checkpoint()
        if self.slow is not None:
            await self.slow.wait()
        if self.closed:
            raise trio.ClosedResourceError
        if self.unwritable:
            return Unwritable()
        self.taken.append(body)
        return EventStored(False, "event:1:digest")

    def answered(self, taken: EventStored) -> None:
        self.acknowledged.append(taken)


def an_inbox(away: Away) -> tuple[NodeInbox, Here]:
    here = Here()
    return NodeInbox(Doors(SHARDS, cast("Any", {})), {HERE: cast("Inbox", here)}, away), here


def chats(where: Callable[[int], bool], many: int) -> list[int]:
    """So many chats of shards like this."""
    return [n for n in range(1, 10_000) if where(shard_of(ChatId(n), SHARDS))][:many]


THERE = chats(lambda shard: shard != HERE, 300)
OWN = chats(lambda shard: shard == HERE, 3)


async def test_an_event_goes_to_its_own_shard(autojump_clock: MockClock) -> None:
    away = Away()
    inbox, here = an_inbox(away)
    own, other = text_event(OWN[0], "a"), text_event(THERE[0], "b")
    for body in (own, other):
        assert isinstance(await inbox.accept(FORM, body), EventStored)
    assert (here.taken, away.taken) == ([own], [other])
    # What can't be read is kept here, whosever it may be.
    await inbox.accept("text/plain", b"?")
    assert here.taken == [own, b"?"]


async def test_that_a_200_was_written_is_told_to_the_shard_s_owner(autojump_clock: MockClock) -> None:
    away = Away()
    inbox, here = an_inbox(away)
    outcome = await inbox.accept(FORM, text_event(THERE[0], "b"))
    assert isinstance(outcome, EventStored)
    inbox.answered(outcome)
    inbox.answered(EventStored(False, f"press:{OWN[0]}:x"))
    inbox.answered(EventStored(False, None))
    shard = shard_of(ChatId(THERE[0]), SHARDS)
    assert away.acknowledged == [(shard, f"event:{THERE[0]}:digest")]
    assert here.acknowledged == [EventStored(False, f"press:{OWN[0]}:x")]


async def test_events_are_held_for_an_owner_that_is_away_and_keep_their_order(
    autojump_clock: MockClock,
) -> None:
    away = Away(up=False)
    inbox, _ = an_inbox(away)
    chat, other = THERE[:2]
    bodies = [text_event(chat, str(number)) for number in range(5)]
    outcomes: list[Outcome] = []

    async def post(body: bytes) -> None:
        outcomes.append(await inbox.accept(FORM, body))

    async with trio.open_nursery() as nursery:
        for body in bodies:
            nursery.start_soon(post, body)
            await trio.sleep(0.1)
        nursery.start_soon(post, text_event(other, "x"))
        await trio.sleep(1)
        away.up = True
    assert [body for body in away.taken if body != text_event(other, "x")] == bodies
    assert len(outcomes) == 6
    assert all(isinstance(outcome, EventStored) for outcome in outcomes)


# --- shards that come and go


@attrs.define
class Moving:
    """A process whose shards come and go, and the inbox of one that may be there."""

    away: Away = attrs.Factory(lambda: Away(up=False))
    own: Here = attrs.Factory(Here)
    here: dict[int, Inbox] = attrs.Factory(dict[int, Inbox])

    def inbox(self) -> NodeInbox:
        return NodeInbox(Doors(SHARDS, cast("Any", {})), self.here, self.away)

    def come(self, chat: int) -> None:
        self.here[shard_of(ChatId(chat), SHARDS)] = cast("Inbox", self.own)

    def go(self) -> None:
        self.here.clear()


async def test_later_events_don_t_overtake_those_that_are_held_when_their_shard_comes_here(
    autojump_clock: MockClock,
) -> None:
    moving = Moving()
    inbox, chat = moving.inbox(), THERE[0]
    bodies = [text_event(chat, str(number)) for number in range(4)]
    async with trio.open_nursery() as nursery:
        for body in bodies[:3]:
            nursery.start_soon(inbox.accept, FORM, body)
            await trio.sleep(0.001)
        await trio.sleep(0.5)
        moving.come(chat)
        # Those that are held look again in a while, and this one comes before.
        nursery.start_soon(inbox.accept, FORM, bodies[3])
    assert moving.own.taken == bodies
    assert await inbox.accept(FORM, text_event(chat, "alone")) != Unreached()


async def test_what_is_being_stored_when_its_time_is_over_is_not_given_up(autojump_clock: MockClock) -> None:
    """Else it would be answered 503, and be stored all the same."""
    moving = Moving()
    inbox, chat = moving.inbox(), THERE[0]
    moving.own.slow = trio.Event()
    outcomes: list[Outcome] = []

    async def post() -> None:
        outcomes.append(await inbox.accept(FORM, text_event(chat, "a")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post)
        await trio.sleep(HOLD_SECONDS - 0.1)
        moving.come(chat)
        await trio.sleep(1)
        moving.own.slow.set()
    assert len(moving.own.taken) == 1
    assert isinstance(outcomes[0], EventStored)


async def test_an_event_whose_shard_leaves_while_it_is_stored_is_handed_on(autojump_clock: MockClock) -> None:
    moving = Moving(away=Away())
    inbox, chat = moving.inbox(), THERE[0]
    moving.come(chat)
    moving.own.closed = True
    body = text_event(chat, "a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.accept, FORM, body)
        await trio.sleep(0.1)
        assert moving.away.taken == []  # it has been removed from here only then
        moving.go()
    assert moving.away.taken == [body]


async def test_later_events_don_t_overtake_one_whose_shard_leaves_while_it_is_stored(
    autojump_clock: MockClock,
) -> None:
    moving = Moving(away=Away())
    inbox, chat = moving.inbox(), THERE[0]
    moving.come(chat)
    moving.own.closed, moving.own.slow = True, trio.Event()
    bodies = [text_event(chat, str(number)) for number in range(3)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.accept, FORM, bodies[0])
        await trio.testing.wait_all_tasks_blocked()
        # What comes now finds out at once that the shard has left.
        slow, moving.own.slow = moving.own.slow, None
        for body in bodies[1:]:
            nursery.start_soon(inbox.accept, FORM, body)
            await trio.testing.wait_all_tasks_blocked()
        moving.go()
        await trio.sleep(0.1)
        slow.set()
    assert moving.away.taken == bodies


async def test_what_a_lost_lease_has_refused_is_handed_on_to_the_next_owner(
    autojump_clock: MockClock,
) -> None:
    moving = Moving(away=Away())
    inbox, chat, held = moving.inbox(), THERE[0], True
    inbox.certain = lambda: held
    moving.come(chat)
    moving.own.unwritable = True
    body = text_event(chat, "a")
    # The store itself is full, or away: that is the platform's to repeat.
    assert await inbox.accept(FORM, body) == Unwritable()
    outcomes: list[Outcome] = []

    async def post() -> None:
        outcomes.append(await inbox.accept(FORM, body))

    async with trio.open_nursery() as nursery:
        moving.own.slow = trio.Event()
        nursery.start_soon(post)
        await trio.testing.wait_all_tasks_blocked()
        held = False
        moving.own.slow.set()
        await trio.sleep(0.1)
        moving.go()
    assert moving.away.taken == [body]
    assert isinstance(outcomes[0], EventStored)


async def test_a_200_that_comes_late_leaves_a_repetition_to_be_known(autojump_clock: MockClock) -> None:
    """The store was away for longer than a proxy waits, which has asked another process meanwhile."""
    moving = Moving(away=Away())
    inbox = moving.inbox()
    inbox.late_after = 5.0
    moving.come(OWN[0])
    for seconds, key in ((4.9, "event:1:digest"), (5.1, None)):
        moving.own.slow = trio.Event()
        outcomes: list[Outcome] = []

        async def post(outcomes: list[Outcome] = outcomes) -> None:
            outcomes.append(await inbox.accept(FORM, text_event(OWN[0], "a")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post)
            await trio.sleep(seconds)
            moving.own.slow.set()
        assert outcomes == [EventStored(False, key)]


async def test_a_process_that_is_not_certain_of_its_lease_takes_nothing_new(
    autojump_clock: MockClock,
) -> None:
    """It may have stood still, and what it reads then may have been repeated and answered elsewhere."""
    moving = Moving(away=Away())
    inbox = moving.inbox()
    inbox.certain = lambda: False
    moving.come(OWN[0])
    for chat in (OWN[0], THERE[0]):
        began = trio.current_time()
        assert await inbox.accept(FORM, text_event(chat, "a")) == Unreached()
        assert trio.current_time() == began
    assert (moving.own.taken, moving.away.taken) == ([], [])


async def test_a_process_without_shards_hands_everything_on(autojump_clock: MockClock) -> None:
    moving = Moving(away=Away())
    inbox = moving.inbox()
    assert isinstance(await inbox.accept(FORM, text_event(OWN[0], "a")), EventStored)
    await inbox.accept(FORM, b"chat_id=1")
    assert moving.away.taken == [text_event(OWN[0], "a"), b"chat_id=1"]


async def test_that_a_200_was_written_is_told_once_and_never_in_circles(autojump_clock: MockClock) -> None:
    """Two processes may each believe that the other one has the shard."""
    moving = Moving(away=Away())
    inbox = moving.inbox()
    inbox.answered_there(f"event:{OWN[0]}:digest")
    assert moving.away.acknowledged == []
    moving.come(OWN[0])
    inbox.answered_there(f"event:{OWN[0]}:digest")
    assert moving.own.acknowledged == [EventStored(False, f"event:{OWN[0]}:digest")]


async def test_an_owner_that_can_t_store_an_event_is_answered_for_with_503(autojump_clock: MockClock) -> None:
    inbox, _ = an_inbox(Away(broken=True))
    assert await inbox.accept(FORM, text_event(THERE[0], "a")) == Unwritable()


async def test_no_event_is_held_for_longer_than_two_seconds(autojump_clock: MockClock) -> None:
    away = Away(up=False)
    inbox, _ = an_inbox(away)
    began = trio.current_time()
    assert await inbox.accept(FORM, text_event(THERE[0], "a")) == Unreached()
    assert trio.current_time() - began == pytest.approx(HOLD_SECONDS)
    # Nor when the owner is there, and says nothing.
    away.up, away.seconds = True, 60.0
    began = trio.current_time()
    assert await inbox.accept(FORM, text_event(THERE[0], "b")) == Unreached()
    assert trio.current_time() - began == pytest.approx(HOLD_SECONDS)
    away.seconds = 0.0
    assert isinstance(await inbox.accept(FORM, text_event(THERE[0], "c")), EventStored)
    assert away.taken == [text_event(THERE[0], "c")]


async def test_an_event_whose_owner_died_behind_the_commit_is_one(autojump_clock: MockClock) -> None:
    away = Away(forgets=1)
    inbox, _ = an_inbox(away)
    outcome = await inbox.accept(FORM, text_event(THERE[0], "a"))
    assert outcome == EventStored(True, f"event:{THERE[0]}:digest")
    assert away.taken == [text_event(THERE[0], "a")]


async def test_what_is_held_is_bounded_and_refused_at_once_beyond(autojump_clock: MockClock) -> None:
    away = Away(up=False)
    inbox, _ = an_inbox(away)
    outcomes: list[Outcome] = []

    async def post(chat: int) -> None:
        outcomes.append(await inbox.accept(FORM, text_event(chat, "a")))

    async with trio.open_nursery() as nursery:
        for chat in THERE[:MOST_HELD]:
            nursery.start_soon(post, chat)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert await inbox.accept(FORM, text_event(THERE[-1], "b")) == Unreached()
        assert trio.current_time() == began
        away.up = True
    assert len(away.taken) == MOST_HELD
    away.full = True
    assert await inbox.accept(FORM, text_event(THERE[0], "c")) == Unreached()

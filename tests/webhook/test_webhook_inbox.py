"""An event is durable and handed on in order before it is answered, and one bad one harms nobody."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked
from webhook_rig import START, Clock, FakeStore, Rig, as_json, make_rig, text_event

from tests.samples import examples
from triobot.errors import StoreFullError
from triobot.seams.inbox import Acceptance, Arrival, HandOn, InboxRow, Quota, Redelivered
from triobot.webhook.inbox import (
    EventStored,
    Inbox,
    Outcome,
)
from triobot.wire.events import Event, Join, Message, PayCallback, Press, Sender
from triobot.wire.ids import CallbackId, ChatId, MessageId, RefId, SenderId
from triobot.wire.platform_side import Body, encode_event

FORM = "application/x-www-form-urlencoded"
MULTIPART = (
    b'--x1\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\n7\r\n'
    b'--x1\r\nContent-Disposition: form-data; name="type"\r\n\r\ntext\r\n'
    b'--x1\r\nContent-Disposition: form-data; name="data"\r\n\r\nhello\r\n--x1--\r\n'
)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (FORM, text_event("hello").data),
        ("application/json", as_json("hello")),
        ("application/json; charset=utf-8", as_json("hello")),
        ("multipart/form-data; boundary=x1", MULTIPART),
        ("", as_json("hello")),
        ("text/plain", text_event("hello").data),
    ],
)
async def test_every_format_is_stored_as_it_came(content_type: str, body: bytes) -> None:
    rig = make_rig()

    assert isinstance(await rig.inbox.accept(content_type, body), EventStored)

    assert [(row.content_type, row.body) for row in rig.store.rows] == [(content_type, body)]
    assert rig.delivered == [(rig.store.rows[0], Message(ChatId(7), "hello"))]
    assert rig.store.rows[0].at == START


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{" * 20_000,
        b"[" * 200_000,
        b"chat_id=%DB%B1&type=text&data=x",
        b"chat_id=1_2&type=text&data=x",
        b"chat_id=9223372036854775808&type=text&data=x",
        b"chat_id=1&chat_id=2&type=text",
        b'{"chat_id": ' + b"9" * 5000 + b', "type": "text"}',
        b"type=text&data=x",
    ],
)
async def test_unreadable_is_kept_and_handed_to_nobody(body: bytes) -> None:
    rig = make_rig()

    assert await rig.inbox.accept(FORM, body) == "unread"

    assert [kept.body for kept in rig.store.kept] == [body]
    assert (rig.store.rows, rig.delivered) == ([], [])
    assert rig.inbox.statistics().unread == 1


@pytest.mark.parametrize("kind", ["triggerButton", "image", "contact", "submitForm", "payCallback"])
async def test_an_event_of_which_only_the_data_is_unreadable_is_told(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody did something that no conversation can take: they wait for an answer."""
    rig = make_rig()
    body = f"chat_id=7&type={kind}&data=nothing".encode()

    assert isinstance(await rig.inbox.accept(FORM, body), EventStored)

    assert [(kept.content_type, kept.body) for kept in rig.store.kept] == [(FORM, body)]
    assert rig.inbox.statistics().unread == 1
    assert [alarm.kind for alarm in rig.alarms] == ["request_unreadable"]
    assert f"{kind}: data" in caplog.text
    assert len(rig.delivered) == 1  # a bot may look for it


async def test_a_type_that_nobody_knows_is_none_of_our_business() -> None:
    rig = make_rig()
    await rig.inbox.accept(FORM, b"chat_id=7&type=neverHeardOf&data=x")
    assert (rig.store.kept, rig.alarms) == ([], [])


@pytest.mark.parametrize(
    "body",
    [
        b'{"chat_id": 7, "type": "text", "data": "\\ud800"}',
        b'{"chat_id": 7, "type": "text", "data": "\\u0000"}',
        b"chat_id=7&type=text&data=%00%ED%A0%80",
        b"chat_id=7&type=image&data=%7Bnot json",
        b"chat_id=7&type=neverHeardOf&data=x",
        b"chat_id=7&type=triggerButton&data=" + b"[" * 50_000,
    ],
)
async def test_odd_ones_among_good_ones_disturb_nobody(body: bytes) -> None:
    rig = make_rig()
    outcomes: list[object] = []

    async def accept(content: bytes) -> None:
        outcomes.append(await rig.inbox.accept("", content))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(accept, body if number == 9 else text_event(str(number)).data)

    assert len(outcomes) == 20
    assert all(isinstance(outcome, EventStored) or outcome == "unread" for outcome in outcomes)
    assert len(rig.store.rows) == 20
    assert [kept.body for kept in rig.store.kept] == [body] * rig.inbox.statistics().unread
    assert sum(text.isdigit() for text in rig.texts) == 19


@given(st.binary(max_size=300), st.sampled_from(["", FORM, "application/json", "multipart/form-data"]))
@settings(max_examples=examples(150))
def test_no_bytes_make_it_raise(body: bytes, content_type: str) -> None:
    async def accept() -> None:
        outcome = await make_rig().inbox.accept(content_type, body)
        assert isinstance(outcome, EventStored) or outcome == "unread"

    trio.run(accept)


async def test_handed_on_in_the_order_of_the_rows() -> None:
    rig = make_rig()
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(rig.inbox.accept, "", text_event(str(number)).data)

    assert [row.seq for row, _ in rig.delivered] == list(range(1, 51))


async def test_a_press_counts_once_however_often_it_comes() -> None:
    rig = make_rig()
    press = encode_event(Press(ChatId(7), "yes", MessageId(3), CallbackId("N7Yc")))
    first = await rig.inbox.accept(press.content_type, press.data)
    assert isinstance(first, EventStored)
    rig.inbox.answered(first)
    rig.clock.at += 6 * 86_400_000

    again = await rig.inbox.accept(press.content_type, press.data)

    assert isinstance(again, EventStored)
    assert again.repeated
    assert len(rig.delivered) == 1
    assert first.key is None  # unique in itself: whether it was answered says nothing


async def test_payment_callbacks_all_count() -> None:
    rig = make_rig()
    callback = encode_event(PayCallback(ChatId(7), RefId("1234567890123456"), status="error", code=1000))

    for _ in range(3):
        await rig.inbox.accept(callback.content_type, callback.data)

    assert len(rig.delivered) == 3


async def test_equal_text_is_a_repetition_only_if_not_answered() -> None:
    """The platform repeats what it got no answer to; users say the same thing twice."""
    rig = make_rig()
    word = text_event("yes")
    first = await rig.inbox.accept(word.content_type, word.data)
    repeated = await rig.inbox.accept(word.content_type, word.data)
    assert isinstance(first, EventStored)
    assert isinstance(repeated, EventStored)
    assert (first.repeated, repeated.repeated) == (False, True)

    rig.inbox.answered(repeated)
    spoken = await rig.inbox.accept(word.content_type, word.data)

    assert isinstance(spoken, EventStored)
    assert not spoken.repeated
    assert rig.texts == ["yes", "yes"]
    assert rig.inbox.statistics().repeated == 1


async def test_both_formats_are_the_same_event() -> None:
    rig = make_rig()
    event = Message(ChatId(7), "yes", Sender(SenderId(9), "Sara"))
    for as_json_body in (False, True):
        body = encode_event(event, as_json=as_json_body)
        await rig.inbox.accept(body.content_type, body.data)

    assert len(rig.delivered) == 1


async def test_one_chat_over_quota_leaves_the_others_alone() -> None:
    rig = make_rig(quota=Quota(events_per_chat=2, bytes_in_all=10_000))
    for number in range(2):
        await rig.inbox.accept("", text_event(str(number), 7).data)

    assert await rig.inbox.accept("", text_event("2", 7).data) == "no room"
    assert isinstance(await rig.inbox.accept("", text_event("2", 8).data), EventStored)
    assert rig.inbox.statistics().over_quota_chat == 1
    assert [alarm.kind for alarm in rig.alarms] == ["chat_refused"]


@pytest.mark.parametrize("what", ["chat_refused", "request_unreadable"])
async def test_a_flood_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock, what: str
) -> None:
    rig = make_rig(quota=Quota(events_per_chat=1))
    await rig.inbox.accept("", text_event("1", 7).data)
    body = text_event("2", 7).data if what == "chat_refused" else b"what?"
    for _ in range(50):
        await rig.inbox.accept("", body)
    assert [alarm.kind for alarm in rig.alarms] == [what]
    assert len(caplog.records) == 1
    await trio.sleep(61)
    await rig.inbox.accept("", body)
    assert [alarm.kind for alarm in rig.alarms] == [what, what]  # the bell says it once an hour
    assert len(caplog.records) == 2
    assert "49 like it" in caplog.text
    counted = rig.inbox.statistics()
    assert counted.over_quota_chat + counted.unread == 51


async def test_half_full_alarms_once_then_everything_is_refused() -> None:
    rig = make_rig(quota=Quota(bytes_in_all=1000))
    outcomes = [await rig.inbox.accept("", text_event("x" * 150, chat).data) for chat in range(1, 9)]

    assert outcomes[-1] == "no room"
    assert [alarm.kind for alarm in rig.alarms] == ["inbox_half_full"]
    assert rig.inbox.statistics().over_quota_whole >= 1


async def test_a_store_that_cannot_write_alarms_once_until_it_can() -> None:
    rig = make_rig()
    rig.store.full = True
    for _ in range(3):
        assert await rig.inbox.accept("", text_event("a").data) == "unwritable"
    assert await rig.inbox.accept("", b"garbage") == "unwritable"
    rig.store.full = False
    assert isinstance(await rig.inbox.accept("", text_event("a").data), EventStored)
    rig.store.full = True
    await rig.inbox.accept("", text_event("b").data)

    assert [alarm.kind for alarm in rig.alarms] == ["store_unwritable"] * 2
    assert rig.texts == ["a"]
    assert rig.inbox.statistics().unwritable == 5


async def test_a_failing_handover_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def deliver(row: InboxRow, event: Event) -> None:
        raise RuntimeError("private words")

    clock = Clock()
    store = FakeStore(clock)
    inbox = Inbox(store, clock=clock, quota=Quota(), deliver=deliver)

    assert isinstance(await inbox.accept("", text_event("private words").data), EventStored)

    assert len(store.rows) == 1
    assert inbox.statistics().undelivered == 1
    assert "private words" not in caplog.text


async def test_logs_and_reprs_hold_no_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rig = make_rig()
    outcome = await rig.inbox.accept("", text_event("+989121234567").data)
    await rig.inbox.accept("", b"private words")
    rig.store.full = True
    await rig.inbox.accept("", text_event("private words").data)

    shown = caplog.text + repr(outcome) + repr(rig.alarms) + repr(rig.inbox.statistics())
    for part in ("989121234567", "private", "event:"):
        assert part not in shown


async def test_what_no_store_holds_is_refused() -> None:
    class Strict(FakeStore):
        async def accept(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            from triobot.errors import LocalProtocolError

            raise LocalProtocolError("content_type", "must not contain U+0000")

        async def commit(self, *writes: object) -> None:
            await self.accept()

    clock = Clock()
    inbox = Inbox(Strict(clock), clock=clock, quota=Quota(), deliver=lambda row, event: None)

    assert await inbox.accept("\0", text_event("a").data) == "unstorable"
    assert inbox.statistics().unstorable == 1


@pytest.mark.parametrize("passes", range(6))
async def test_cancelled_anywhere_it_is_stored_and_handed_on_or_neither(passes: int) -> None:
    """Whoever gives up waiting leaves a whole event or none, and its repetition is not taken for news."""
    rig = make_rig()
    body: Body = text_event("yes")
    outcomes: list[object] = []

    async def accept() -> None:
        outcomes.append(await rig.inbox.accept(body.content_type, body.data))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert len(rig.store.rows) == len(rig.delivered)
    await rig.inbox.accept(body.content_type, body.data)
    assert len(rig.delivered) == 1


async def test_join_without_content() -> None:
    rig = make_rig()
    body = encode_event(Join(ChatId(-12)))

    await rig.inbox.accept(body.content_type, body.data)

    assert rig.delivered[0][1] == Join(ChatId(-12))


class SlowTaker:
    """Takes the first event before it is stored, and stores it when it is let."""

    def __init__(self, store: FakeStore) -> None:
        self.store = store
        self.lets = trio.Event()
        self.fails = False
        self.takes = 0

    async def accept(
        self, event: Event, arrival: Arrival, quota: Quota, hand_on: HandOn
    ) -> Acceptance | None:
        self.takes += 1
        if self.takes > 1:
            return await self.store.accept(arrival, quota=quota, on_commit=partial(hand_on, None))
        return None if await self._store(arrival) else Redelivered()

    async def _store(self, arrival: Arrival) -> bool:
        await self.lets.wait()
        if self.fails:
            raise StoreFullError("the disk is full")
        return isinstance(await self.store.accept(arrival, quota=Quota()), InboxRow)


async def two_at_once(*, first_fails: bool = False) -> tuple[Rig, list[Outcome]]:
    """Three deliveries of one event: two come while the first is being stored, and are answered at once."""
    rig, body = make_rig(), text_event("hello").data
    taker = SlowTaker(rig.store)
    rig.inbox.early = taker.accept
    taker.fails = first_fails
    outcomes: list[Outcome] = []

    async def deliver() -> None:
        outcomes.append(outcome := await rig.inbox.accept(FORM, body))
        if isinstance(outcome, EventStored):
            rig.inbox.answered(outcome)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(deliver)
            await wait_all_tasks_blocked()
        taker.lets.set()
    return rig, outcomes


async def test_a_delivery_does_not_overtake_the_one_that_it_repeats() -> None:
    """A proxy that lost its first way sends it by another one, and both come through."""
    rig, outcomes = await two_at_once()

    assert len(rig.store.rows) == 1
    assert sorted(outcome.repeated for outcome in outcomes if isinstance(outcome, EventStored)) == [
        *(False, True, True)
    ]


async def test_a_delivery_is_stored_if_the_one_that_it_repeats_could_not_be() -> None:
    rig, outcomes = await two_at_once(first_fails=True)

    assert len(rig.store.rows) == 1
    assert [outcome == "unwritable" for outcome in outcomes].count(True) == 1
    stored = [outcome.repeated for outcome in outcomes if isinstance(outcome, EventStored)]
    assert sorted(stored) == [False, True]

"""An alarm about a state ends when the state is over. Virtual time passes in these tests."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import attrs
import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.bot.rig import FORM, SECRET, say
from triobot import Alarm, Bot, Chat, Message, Settings
from triobot.base.alarm_kinds import AlarmKind
from triobot.base.secrets import Secret
from triobot.errors import StoreFullError
from triobot.filters import message
from triobot.runtime.bot import within
from triobot.runtime.work import Intake, Surroundings
from triobot.seams.inbox import Quota
from triobot.seams.money import RaiseAlarm
from triobot.store.memory import MemoryRows, open_memory
from triobot.testing.virtual import VirtualWallClock

MINUTE, HOUR = 60.0, 3600.0

# Enough time for an alarm to be raised and to end, with one further check.
SOON = 11 * MINUTE


@attrs.define
class House:
    """A bot's runs, one after another on one store, and its platform.

    Attributes:
        status: what the platform answers.
        body: what stands in the answer to a send.
        gate: each send waits for it, if there is one.
        told: what the author's hook heard, in each run.
        asked: the paths that the platform was asked for.
    """

    status: int = 200
    body: bytes = b'{"id": 5}'
    gate: trio.Event | None = None
    told: list[AlarmKind] = attrs.Factory(lambda: list[AlarmKind]())
    asked: list[str] = attrs.Factory(lambda: list[str]())
    texts: list[str] = attrs.Factory(lambda: list[str]())
    rows: MemoryRows = attrs.Factory(MemoryRows)
    clock: VirtualWallClock = attrs.Factory(VirtualWallClock)

    async def take(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        fields = parse_qs((await request.aread()).decode("latin-1"))
        path = request.url.path.strip("/")
        self.asked.append(path)
        await trio.sleep(0.01)
        if self.gate is not None and path == "sendMessage":
            await self.gate.wait()
        if self.status != 200:
            return httpx.Response(self.status, content=b'{"error": "told to"}')
        if path == "upload":
            return httpx.Response(200, content=json.dumps({"path": "/1"}))
        self.texts.append(fields["data"][0])
        return httpx.Response(200, content=self.body)

    @property
    def settings(self) -> Settings:
        """A bot's settings, with nothing of this machine."""
        return Settings(
            token=Secret("rig-token"),
            base_url="http://127.0.0.1:9",
            webhook_secret=Secret(SECRET),
            store="memory:",
        )

    @asynccontextmanager
    async def runs(self, bot: Bot) -> AsyncGenerator[Intake]:
        """A run, which ends as at a deploy."""
        bot.on_alarm(self.hear)
        async with open_memory(clock=self.clock, rows=self.rows) as store:
            around = Surroundings(
                settings=self.settings,
                clock=self.clock,
                transport=httpx.MockTransport(self.take),
                store=store,
                on_alarm=lambda alarm: None,
                opened=lambda intake: None,
            )
            with within(bot, around):
                async with bot.running() as intake:
                    yield intake

    async def hear(self, alarm: Alarm) -> None:
        """The author's hook."""
        self.told.append(alarm.kind)


def echo(**options: object) -> Bot:
    """Says again what is said to it."""
    bot = Bot(**options)  # type: ignore[arg-type]

    @bot.conversation(message(str), name="echo")
    async def echo(chat: Chat[Message[str]]) -> None:
        said = chat.event.content
        while True:
            await chat.send(said)
            said = (await chat.receive(message(str))).content

    return bot


async def listed(intake: Intake) -> Any:
    """What `triobot status` lists; `triobot alarms` says the same."""
    alarms: Any = (await intake.api.status())["alarms"]
    told: list[Any] = []

    async def tell(row: Mapping[str, object]) -> None:
        told.append({name: value for name, value in row.items() if name != "act"})

    await intake.api.answer({"ask": "alarms.list"}, tell)
    assert told == alarms
    return alarms


async def open_in(intake: Intake) -> list[tuple[AlarmKind, str]]:
    """What the operator's list shows; what `triobot status` lists is the same."""
    rows = [(row.kind, row.key) for row in await intake.store.alarms.open(limit=99)]
    assert [(one["kind"], one["key"]) for one in await listed(intake)] == rows
    return rows


def ends(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log's lines about ends."""
    return [line for record in caplog.records if (line := record.getMessage()).endswith("is over")]


@pytest.mark.slow
async def test_a_token_that_is_good_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is refused, the alarm comes every hour; then it ends, and comes back at once if it must."""
    house = House(status=403)
    async with house.runs(echo()) as intake:
        for chat in range(1, 8):
            await say(intake, chat, "hi")
        await trio.sleep(2 * HOUR + SOON)
        assert house.told == ["token_refused"] * 3
        house.status = 200
        await trio.sleep(SOON)
        assert await open_in(intake) == []
        assert ends(caplog) == ["the alarm token_refused (outbox) is over"]
        await trio.sleep(5 * HOUR)
        assert house.told == ["token_refused"] * 3
        house.status = 403
        for chat in range(1, 8):
            await say(intake, chat, "again")
        await trio.sleep(MINUTE)
        assert house.told[3:] == ["token_refused"]
        assert await open_in(intake) == [("token_refused", "outbox")]


@pytest.mark.parametrize("good", [True, False])
async def test_a_token_after_a_restart_of_a_quiet_bot(autojump_clock: MockClock, good: bool) -> None:
    """The platform is asked, since nothing else tells."""
    house = House(status=403)
    async with house.runs(echo()) as intake:
        intake.sink.ring(Alarm("token_refused", "outbox", "text"))
        await trio.sleep(MINUTE)
    house.status, house.asked = (200 if good else 403), []
    async with house.runs(echo()) as intake:
        await trio.sleep(4 * MINUTE)
        assert (house.asked, await open_in(intake)) == ([], [("token_refused", "outbox")])
        await trio.sleep(HOUR + SOON)
        assert set(house.asked) == {"upload"}
        assert len(house.asked) == 1 if good else len(house.asked) > 10
        assert bool(await open_in(intake)) is not good
    assert house.told == ["token_refused"] * (1 if good else 2)


def shop(*, broken: bool) -> Bot:
    """Does something else before its second question, once it is broken."""
    bot = Bot()

    @bot.conversation(message(str), name="shop")
    async def order(chat: Chat[Message[str]]) -> None:
        if broken:
            await chat.step(trio.sleep, 0)
        await chat.ask("Order of what?")
        await chat.ask("How many?", int)

    return bot


async def test_a_parked_conversation_that_goes_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    house = House()
    async with house.runs(shop(broken=False)) as intake:
        for chat in range(1, 13):
            await say(intake, chat, "hi")
        await trio.sleep(MINUTE)
    async with house.runs(shop(broken=True)) as intake:
        for chat in range(1, 13):
            await say(intake, chat, "Pizza")
        await trio.sleep(HOUR + SOON)
        both = [("conversation_parked", "shop"), ("conversation_parked", "shop 10")]
        assert await open_in(intake) == both
        assert house.told == ["conversation_parked"] * 4
        rows = await intake.store.parked(after=0, limit=99)
        for row in rows[1:]:
            assert await intake.order(row, True, "Sorry.")
        await trio.sleep(SOON)
        assert await open_in(intake) == both, "one is still parked"
    assert ends(caplog) == []
    async with house.runs(shop(broken=False)) as intake:
        await trio.sleep(4 * MINUTE)
        assert await open_in(intake) == both
        await trio.sleep(2 * MINUTE)
        assert await open_in(intake) == []
        assert len(ends(caplog)) == 2
        await trio.sleep(5 * HOUR)
    assert house.told == ["conversation_parked"] * 4


async def test_a_parked_conversation_that_is_ended(autojump_clock: MockClock) -> None:
    house = House()
    async with house.runs(shop(broken=False)) as intake:
        await say(intake, 1, "hi")
        await trio.sleep(MINUTE)
    async with house.runs(shop(broken=True)) as intake:
        await say(intake, 1, "Pizza")
        await trio.sleep(SOON)
        (row,) = await intake.store.parked(after=0, limit=99)
        assert await intake.order(row, True, "Sorry.")
        await trio.sleep(SOON)
        assert await open_in(intake) == []


@pytest.mark.slow
async def test_a_store_that_can_be_written_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the store could not even take the alarm."""

    async def full(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFullError("no room")

    house = House()
    async with house.runs(echo()) as intake:
        with monkeypatch.context() as patch:
            for name in ("accept", "check", "commit"):
                patch.setattr(intake.store, name, full)
            await say(intake, 1, "hi")
            await trio.sleep(HOUR + SOON)
            (one,) = await listed(intake)
            assert (one["kind"], one["last"] <= intake.clock.now()) == ("store_unwritable", True)
            assert (await intake.api.status())["open_alarm_kinds"] == {"store_unwritable": 1}
        assert house.told == ["store_unwritable"] * 2
        await trio.sleep(SOON)
        assert await open_in(intake) == []
        assert await listed(intake) == []
        assert ends(caplog) == ["the alarm store_unwritable (store) is over"]


async def test_an_inbox_that_has_room_again(autojump_clock: MockClock) -> None:
    house = House(gate=trio.Event())
    async with house.runs(echo()) as intake:
        intake.inbox._quota = Quota(bytes_in_all=6000)
        for number in range(40):
            await say(intake, 1, f"{number}")
        await trio.sleep(SOON)
        assert await open_in(intake) == [("inbox_half_full", "inbox")]
        assert house.gate is not None
        house.gate.set()
        await trio.sleep(SOON)
        assert await open_in(intake) == []


async def test_a_backlog_that_is_gone(autojump_clock: MockClock) -> None:
    house = House(status=500)
    bot = echo(settings=house.settings, transport=httpx.MockTransport(house.take), clock=house.clock)
    bot.on_alarm(house.hear)
    async with bot.running() as intake:
        await say(intake, 1, "hi")
        await trio.sleep(30 * MINUTE)
        assert await open_in(intake) == [("backlog", "sends")]
        house.status = 200
        await trio.sleep(SOON)
        assert await open_in(intake) == []
        await trio.sleep(2 * HOUR)
    assert house.told == ["backlog"]


async def test_what_is_wrong_each_time_anew_ends_an_hour_after_the_last(autojump_clock: MockClock) -> None:
    """Nothing tells of the end but that it doesn't happen again."""
    house = House(body=b"{}")
    async with house.runs(echo()) as intake:
        for _ in range(4):
            await say(intake, 1, "hi")
            await intake.inbox.accept(FORM, b"what is this")
            await trio.sleep(50 * MINUTE)
        kinds = [("answer_unreadable", "sendMessage"), ("request_unreadable", "inbox")]
        assert sorted(await open_in(intake)) == kinds
        assert sorted(house.told) == ["answer_unreadable"] * 4 + ["request_unreadable"] * 4
        await trio.sleep(20 * MINUTE)
        assert await open_in(intake) == []
        await trio.sleep(5 * HOUR)
    assert len(house.told) == 8


async def test_what_a_start_does_not_find_any_more(autojump_clock: MockClock) -> None:
    house = House()
    async with house.runs(echo()) as intake:
        await intake.store.commit(RaiseAlarm("signal_unreadable", "a call", "text", house.clock.now()))
        intake.sink.ring(Alarm("signal_unreadable", "a signal", "text"))
        await trio.sleep(HOUR + SOON)
        assert await open_in(intake) == [("signal_unreadable", "a signal")]
    assert house.told == ["signal_unreadable"] * 3, "each at once, and the one that lasts after an hour"


async def test_what_happened_is_told_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Again only if it happens again; and it stays in the list until an operator has seen it."""
    bot, house = Bot(), House()

    @bot.conversation(message(str), name="frail")
    async def frail(chat: Chat[Message[str]]) -> None:
        raise KeyError

    async with house.runs(bot) as intake:
        await say(intake, 1, "hi")
        await trio.sleep(5 * HOUR)
        assert house.told == ["conversation_crashed"]
        for _ in range(2):
            await say(intake, 1, "hi")
            await trio.sleep(50 * MINUTE)
        await trio.sleep(5 * HOUR)
        assert house.told == ["conversation_crashed"] * 2
        assert [kind for kind, _ in await open_in(intake)] == ["conversation_crashed"]
    async with house.runs(bot) as intake:
        await trio.sleep(5 * HOUR)
        assert [kind for kind, _ in await open_in(intake)] == ["conversation_crashed"]
    assert house.told == ["conversation_crashed"] * 2
    assert ends(caplog) == []

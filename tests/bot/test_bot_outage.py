"""A whole bot while the platform refuses, fails or redirects requests. Virtual time passes in these tests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from urllib.parse import parse_qs

import attrs
import httpx
import pytest
import trio
import trio.testing

from tests.bot.rig import SECRET, say
from triobot import Alarm, Bot, Chat, Message, Settings
from triobot.base.secrets import Secret
from triobot.conversations import workload
from triobot.emulator.faults import Fault
from triobot.filters import message, text
from triobot.testing import drive
from triobot.testing.virtual import VirtualWallClock

Answer = Callable[[int, str, int], int | httpx.Response]
"""From a chat, a text and how often it was tried, to a status."""


@attrs.define
class Platform:
    """Answers as it is told, and remembers what arrived.

    Attributes:
        texts: what was taken, per chat.
        tried: every attempt in its order, per chat.
        hosts: which hosts were asked.
    """

    answer: Answer
    texts: dict[int, list[str]] = attrs.Factory(lambda: defaultdict[int, list[str]](list))
    tried: dict[int, list[str]] = attrs.Factory(lambda: defaultdict[int, list[str]](list))
    hosts: set[str] = attrs.Factory(lambda: set[str]())

    async def take(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.hosts.add(request.url.host)
        fields = parse_qs((await request.aread()).decode("latin-1"))
        if request.url.path.endswith("/upload"):
            # A refused upload names no chat, so the token is wrong.
            await trio.sleep(0.01)
            said = self.answer(0, "", 1)
            return httpx.Response(said if said in (403, 500) else 200, content=b'{"path": "/1"}')
        if not request.url.path.endswith("/sendMessage"):
            return httpx.Response(200, content=b'{"id": 1}')
        chat, text = int(fields["chat_id"][0]), fields["data"][0]
        self.tried[chat].append(text)
        await trio.sleep(0.01)
        said = self.answer(chat, text, self.tried[chat].count(text))
        if isinstance(said, httpx.Response):
            return said
        if said == 200:
            self.texts[chat].append(text)
        return httpx.Response(said, content=json.dumps({"id": 5} if said == 200 else {"error": "told to"}))


def make_bot(platform: Platform, clock: VirtualWallClock | None = None) -> Bot:
    """Repeats each text, twice, in a conversation that never ends by itself."""
    settings = Settings(
        token=Secret("t"),
        base_url="http://127.0.0.1:9",
        webhook_secret=Secret(SECRET),
        store="memory:",
        port=0,
    )
    bot = Bot(settings=settings, transport=httpx.MockTransport(platform.take), clock=clock)

    @bot.conversation(message(str))
    async def twice(chat: Chat[Message[str]]) -> None:
        said = chat.event.content
        while True:
            await chat.send(f"{said} a")
            await chat.send(f"{said} b")
            said = (await chat.receive(message(str))).content

    return bot


@pytest.mark.slow
async def test_a_token_refused_for_five_minutes_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Conversations wait, events are taken, one alarm; then everything goes out in order by itself."""
    right_at = trio.current_time() + 300
    platform = Platform(lambda *_: 200 if trio.current_time() >= right_at else 403)
    alarms: list[Alarm] = []
    bot = make_bot(platform)

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    async with bot.running() as intake:
        for number in range(10):
            for chat in range(1, 21):
                await say(intake, chat, str(number))
            await trio.sleep(29)
            assert number == 0 or not intake.readiness().ready
        assert sum(map(len, platform.tried.values())) < 60
        with trio.fail_after(120):
            while sum(map(len, platform.texts.values())) < 400:
                await trio.sleep(1)
        counts = bot.statistics().counts
        assert intake.readiness().ready

    said = [f"{number} {part}" for number in range(10) for part in "ab"]
    assert dict(platform.texts) == dict.fromkeys(range(1, 21), said)
    assert counts["started"] == 20
    assert "crashed" not in counts
    assert [alarm.kind for alarm in alarms] == ["token_refused"]


async def test_a_token_that_goes_bad_under_live_conversations_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It worked, it is refused for five minutes, it works again: no conversation noticed."""
    bad: list[bool] = [False]
    platform = Platform(lambda *_: 403 if bad[0] else 200)
    bot = make_bot(platform)
    async with bot.running() as intake:
        for chat in range(1, 11):
            await say(intake, chat, "0")
        await trio.sleep(5)
        bad[0] = True
        for number in (1, 2):
            for chat in range(1, 11):
                await say(intake, chat, str(number))
            await trio.sleep(150)
        assert not intake.readiness().ready
        bad[0] = False
        await trio.sleep(90)
        counts = bot.statistics().counts

    said = [f"{number} {part}" for number in range(3) for part in "ab"]
    assert dict(platform.texts) == dict.fromkeys(range(1, 11), said)
    assert (counts["started"], counts.get("crashed", 0)) == (10, 0)


async def test_one_person_who_left_a_quiet_bot_is_no_outage(autojump_clock: trio.testing.MockClock) -> None:
    """Nobody else says anything, so the runtime itself finds out that the token is good."""
    left: list[bool] = [False]
    platform = Platform(lambda chat, *_: 403 if chat == 3 and left[0] else 200)
    alarms: list[Alarm] = []
    bot = make_bot(platform)

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    async with bot.running() as intake:
        await say(intake, 3, "0")
        await trio.sleep(5)
        left[0] = True
        await say(intake, 3, "1")
        held = False
        for _ in range(4_000):
            await trio.sleep(0.005)
            held = held or bot.statistics().outbox.held
            assert intake.readiness().ready, "not even until the question is answered"
        assert held
        assert bot.statistics().counts["gone"] == 1
    assert alarms == []


async def test_one_person_who_left_is_no_outage_while_uploads_fail(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing tells of the token; so a balancer that heeds /readyz must let the events of others come."""
    left: list[bool] = [False]
    platform = Platform(lambda chat, *_: {0: 500, 3: 403}.get(chat, 200) if left[0] else 200)
    alarms: list[Alarm] = []
    bot = make_bot(platform)

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    async with bot.running() as intake:
        await say(intake, 3, "0")
        await trio.sleep(5)
        left[0] = True
        await say(intake, 3, "1")
        for _ in range(400):
            await trio.sleep(1)
            assert intake.readiness().ready
        assert (intake.readiness().states["outbox"], bot.statistics().outbox.held) == ("held", True)
        assert [alarm.kind for alarm in alarms] == ["outbox_held"]

        await say(intake, 4, "0")
        await trio.sleep(20)
        assert platform.texts[4] == ["0 a", "0 b"]
        assert (intake.readiness().states["outbox"], bot.statistics().counts["gone"]) == ("ok", 1)


async def test_a_token_that_was_never_good_is_not_ready_although_one_chat_alone_was_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bot = make_bot(Platform(lambda *_: 403))
    async with bot.running() as intake:
        await say(intake, 3, "0")
        await trio.sleep(5)
        assert intake.readiness().ready
        await trio.sleep(0.1)
        assert not intake.readiness().ready


async def test_a_token_that_is_good_again_is_found_out_with_nothing_to_send(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A balancer that heeds /readyz sends no event that would find out."""
    bad: list[bool] = [False]
    platform = Platform(lambda *_: 403 if bad[0] else 200)
    alarms: list[Alarm] = []
    bot = make_bot(platform)

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    async with bot.running() as intake:
        await say(intake, 3, "0")
        await trio.sleep(5)
        bad[0] = True
        with trio.CancelScope() as given_up:
            async with trio.open_nursery() as nursery:
                for chat in range(1, 7):
                    nursery.start_soon(bot.to(chat).send, "x")
                await trio.sleep(40)
                given_up.cancel()
        assert not intake.readiness().ready
        assert bot.statistics().outbox.queued == 0
        bad[0] = False
        await trio.sleep(31)
        assert intake.readiness().ready
    assert [alarm.kind for alarm in alarms] == ["token_refused"]


async def test_one_person_who_left_harms_nobody_else(autojump_clock: trio.testing.MockClock) -> None:
    """403 for one chat while others are answered ends that chat's conversation, quietly."""
    platform = Platform(lambda chat, *_: 403 if chat == 3 else 200)
    bot = make_bot(platform)
    async with bot.running() as intake:
        for number in range(3):
            for chat in range(1, 7):
                await say(intake, chat, str(number))
            await trio.sleep(30)
            assert intake.readiness().ready
        counts = bot.statistics().counts

    said = [f"{number} {part}" for number in range(3) for part in "ab"]
    assert dict(platform.texts) == dict.fromkeys([1, 2, 4, 5, 6], said)
    assert counts["gone"] == 3


@pytest.mark.parametrize("status", [403, 503, None])
async def test_a_stop_does_not_wait_for_the_platform_to_recover(
    autojump_clock: trio.testing.MockClock, status: int | None
) -> None:
    """What waits to be repeated is said after the next start, in order and once."""
    bot = make_bot(Platform(lambda *_: 200))
    async with drive(bot) as world:
        people = [world.user(name) for name in ("Ali", "Sara", "Reza", "Mina", "Omid", "Nima")]
        for person in people:
            await person.joins()
            await person.says("0")
            await person.sees("0 b")
        if status is None:
            world.refuses(seconds=1000)
        else:
            world.faults.add(Fault(status=status))
        for person in people:
            await person.says("1")
            await person.says("2")
        await world.waits(seconds=60)
        began = trio.current_time()
        await world.restarts()
        assert trio.current_time() - began < 1
        await world.waits(seconds=60)
        world.faults.clear()
        await world.waits(seconds=1200)
        for person in people:
            said = [seen.text for seen in await person.history() if seen.text.endswith((" a", " b"))]
            assert said == ["0 a", "0 b", "1 a", "1 b", "2 a", "2 b"]
        while world.alarms:
            assert world.takes_alarm("token_refused") and status == 403


async def test_a_stop_waits_for_what_is_in_flight_while_others_wait_to_be_repeated(
    autojump_clock: trio.testing.MockClock,
) -> None:
    platform = Platform(lambda chat, *_: 503 if chat == 3 else 200)
    async with make_bot(platform).running() as intake:
        await say(intake, 3, "0")
        await trio.sleep(20)
        await say(intake, 4, "0")
        await trio.testing.wait_all_tasks_blocked()
    # The first text was under way. During the stop, the conversation continues, and sends the second text.
    assert platform.texts[4] == ["0 a", "0 b"]


@pytest.mark.parametrize("status", [429, 500, 503, 408])
async def test_what_is_tried_again_keeps_its_place(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    """Of each chat nothing overtakes a message that failed; the others don't wait for it."""

    def answer(chat: int, text: str, tries: int) -> int:
        return status if chat % 2 and tries <= 1 + len(text) % 3 else 200

    platform = Platform(answer)
    async with make_bot(platform).running() as intake:
        for number in range(5):
            for chat in range(1, 9):
                await say(intake, chat, str(number))
        with trio.fail_after(600):
            while sum(map(len, platform.texts.values())) < 80:
                await trio.sleep(1)

    said = [f"{number} {part}" for number in range(5) for part in "ab"]
    assert dict(platform.texts) == dict.fromkeys(range(1, 9), said)
    for tried in platform.tried.values():
        assert list(dict.fromkeys(tried)) == said
        assert tried == sorted(tried, key=said.index)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_refusal_and_is_never_followed(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    """Neither elsewhere nor on the same host; the conversation fails, the next one works."""

    def answer(chat: int, text: str, tries: int) -> int | httpx.Response:
        if text.startswith("go"):
            return httpx.Response(status, headers={"location": "https://evil.example/sendMessage"})
        return 200

    platform = Platform(answer)
    async with make_bot(platform).running() as intake:
        await say(intake, 1, "go")
        await trio.sleep(60)
        await say(intake, 1, "stay")
        await trio.sleep(60)

    assert platform.hosts == {"127.0.0.1"}
    assert platform.tried[1].count("go a") == 1
    assert platform.texts[1][-2:] == ["stay a", "stay b"]


async def test_a_backlog_has_an_alarm_by_age(autojump_clock: trio.testing.MockClock) -> None:
    """Of what is to be sent; what waits for the conversation's own code is none."""
    failing: list[bool] = [False]
    alarms: list[Alarm] = []
    bot = make_bot(Platform(lambda *_: 503 if failing[0] else 200))

    @bot.interrupt(text("work"))
    async def works(chat: Chat) -> None:
        await chat.step(trio.sleep, 200)

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    async with bot.running() as intake:
        await say(intake, 2, "work")
        await say(intake, 2, "1")
        await trio.sleep(150)
        assert alarms == []
        failing[0] = True
        await say(intake, 1, "0")
        await trio.sleep(55)
        assert alarms == []
        await trio.sleep(100)
        assert [(alarm.kind, alarm.key) for alarm in alarms] == [("backlog", "sends")]
        assert intake.health()["send_age"] > 100  # type: ignore[operator]
        failing[0] = False
        await trio.sleep(60)
        assert intake.health()["send_age"] == 0


async def test_events_that_are_not_routed_are_a_backlog(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms: list[Alarm] = []
    bot = make_bot(Platform(lambda *_: 200), VirtualWallClock())

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    # The bot always counts as overloaded.
    monkeypatch.setattr(workload, "BUSY", -1)
    async with bot.running() as intake:
        await say(intake, 1, "0")
        await trio.sleep(50)
        assert alarms == []
        await trio.sleep(100)
        assert [(alarm.kind, alarm.key) for alarm in alarms] == [("backlog", "events")]

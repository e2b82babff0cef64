"""The order in which events reach the bot, and what happens to it on demand, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest
import trio
import trio.testing

from triobot.emulator.faults import EventFault, FaultPlan
from triobot.emulator.pusher import BotAddress, Pusher, PushQueueFullError, PushSettings
from triobot.wire.decode import decode_event
from triobot.wire.events import Join, Message
from triobot.wire.ids import ChatId
from triobot.wire.platform_side import Body, encode_event

CHAT = ChatId(5)


class Bot:
    """Takes bodies, and answers what it is told to, 200 in the end."""

    def __init__(self, *answers: int | None, seconds: float = 0) -> None:
        self.got: list[tuple[float, str]] = []
        self.in_flight = 0
        self._answers = list(answers)
        self._seconds = seconds

    async def __call__(self, body: Body) -> int | None:
        self.in_flight += 1
        assert self.in_flight == 1, "one at a time"
        event = decode_event(body.content_type, body.data)
        await trio.sleep(self._seconds)
        self.got.append((trio.current_time(), str(event.content) if isinstance(event, Message) else "join"))
        self.in_flight -= 1
        return self._answers.pop(0) if self._answers else 200

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.got]

    @property
    def times(self) -> list[float]:
        return [at - self.got[0][0] for at, _ in self.got]


async def push(
    bot: Bot, texts: Sequence[str], *faults: EventFault, settings: PushSettings | None = None
) -> Pusher:
    plan = FaultPlan()
    for fault in faults:
        plan.add(fault)
    pusher = Pusher(bot, encode_event, fault=plan.for_event, settings=settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pusher.run)
        for text in texts:
            pusher.push(Join(CHAT) if text == "join" else Message(CHAT, text))
        await pusher.wait_idle()
        nursery.cancel_scope.cancel()
    return pusher


def ended(pusher: Pusher) -> list[tuple[str, int, int | None]]:
    return [(posted.state, posted.attempts, posted.status) for posted in pusher.deliveries.settled()]


async def test_events_arrive_in_order_one_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    bot = Bot(seconds=3)
    await push(bot, ["1", "2", "3"])
    assert (bot.texts, bot.times) == (["1", "2", "3"], [0, 3, 6])


async def test_a_failure_is_tried_again_and_nothing_overtakes_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bot = Bot(None, 503)
    pusher = await push(bot, ["1", "2"])
    assert (bot.texts, bot.times) == (["1", "1", "1", "2"], [0, 1, 2, 2])
    assert ended(pusher) == [("delivered", 3, 200), ("delivered", 1, 200)]


async def test_after_the_last_attempt_the_event_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    bot = Bot(500, None, 500, 500)
    pusher = await push(bot, ["1", "2"], settings=PushSettings(attempts=2, interval=7))
    assert (bot.texts, bot.times) == (["1", "1", "2", "2"], [0, 7, 7, 14])
    assert ended(pusher) == [("lost", 2, None), ("lost", 2, 500)]


async def test_any_other_answer_settles(autojump_clock: trio.testing.MockClock) -> None:
    bot = Bot(404, 302, 204)
    pusher = await push(bot, ["1", "2", "3"])
    assert bot.texts == ["1", "2", "3"]
    assert ended(pusher) == [("refused", 1, 404), ("refused", 1, 302), ("delivered", 1, 204)]


async def test_events_are_doubled_dropped_and_held_back(autojump_clock: trio.testing.MockClock) -> None:
    bot = Bot()
    await push(bot, ["1", "2"], EventFault(duplicates=2, times=1))
    assert bot.texts == ["1", "1", "1", "2"]

    bot = Bot()
    pusher = await push(bot, ["1", "join", "2"], EventFault(type="text", drop=True, times=1))
    assert bot.texts == ["join", "2"]
    assert ended(pusher)[0] == ("lost", 0, None)

    bot = Bot()
    await push(bot, ["1", "2", "3"], EventFault(type="join"), EventFault(delay=5, times=2))
    assert (bot.texts, bot.times) == (["1", "2", "3"], [0, 5, 5])


async def test_an_event_changes_places_with_the_next(autojump_clock: trio.testing.MockClock) -> None:
    bot = Bot()
    await push(bot, ["1", "2", "3"], EventFault(behind=True, times=1))
    assert bot.texts == ["2", "1", "3"]

    bot = Bot()
    start = trio.current_time()
    await push(bot, ["1"], EventFault(behind=True))
    assert (bot.texts, trio.current_time() - start) == (["1"], 1)


async def test_two_that_would_both_go_behind_still_both_arrive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bot = Bot()
    await push(bot, ["1", "2"], EventFault(behind=True))
    assert sorted(bot.texts) == ["1", "2"]


async def test_the_queue_is_bounded_and_takes_all_or_nothing() -> None:
    pusher = Pusher(Bot(), encode_event, settings=PushSettings(capacity=20))
    pusher.check_room()
    pusher.push(*[Join(CHAT)] * 19)
    with pytest.raises(PushQueueFullError):
        pusher.push(Join(CHAT), Join(CHAT))
    assert pusher.waiting == 19
    with pytest.raises(PushQueueFullError):
        pusher.check_room()


async def test_posting_over_http_follows_no_redirect_and_names_no_error() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        if request.url.path == "/down":
            raise httpx.ConnectError("refused")
        return httpx.Response(307, headers={"location": "http://evil.example/"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        body = Body("text/plain", b"x")
        assert await BotAddress(client, "http://bot/hook")(body) == 307
        assert await BotAddress(client, "http://bot/down")(body) is None
        assert await BotAddress(client, None)(body) is None
    assert seen == ["http://bot/hook", "http://bot/down"]

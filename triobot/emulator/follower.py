"""What a page has to be told: first all there is, then whatever is new. Pure, but for the exchange it reads.

Each of the two is one JSON object; the keys are the same in both, and a page merges what it gets:

==============  ====================================================================================
``now``         the platform's clock
``users``       everybody, or those whose wallets may have changed
``chats``       everything about a chat but its messages; in the first, those too (the newest)
``changes``     the world's changes, in their order
``bills``       the payment buttons and invoices of the chats concerned
``deliveries``  what becomes of each event: those that are new or have changed; in the first the newest
``calls``       requests in both directions, begun or ended; in the first the newest, and in
                ``older_calls`` whether there are others
``machine``     faults, switches, the clock; only when something about it is new
``waiting``     how many events wait for the bot; only when that is new
``address``     whether a bot listens where events are posted to; only when that is new
``bot``         the bot's process, or null; only when something about it is new
``runtime``     what the bot says of itself; only when that is new
``inside``      its chats in memory and its ledger; only when that is new
``lines``       what the bot's process wrote
``crowd``       how the crowd is, under ``triobot dev``; else null; only when that is new
``travel``      the passes over conversations' journals, and whether they are ready; only when that is new
``held``        the conversations that hold back new code; only when that is new
==============  ====================================================================================

A page that has shown the control token gets these over a WebSocket, or as server-sent events. A page uses the
WebSocket. A browser has six connections to one host for all of its tabs together, and an answer that never
ends holds one: from the seventh tab on nothing would be shown, and none could act. WebSockets are counted by
themselves, in hundreds. The events are for programs, and for ``curl -N``. The browser's own `EventSource`
can't send a header, and a token in an address would end up in logs and histories.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, cast, final

import attrs
import trio
from quart import Blueprint, Response, websocket

from ..wire.operations import OPERATIONS
from ..wire.rules import JsonValue
from .chats import Change, MoneyMoved, PlatformChat
from .deliveries import view_delivery
from .door import PROTOCOL
from .exchange import BotProcess, Exchange
from .traffic import view_call, view_calls
from .views import JsonObject, json_for_pages, view_bill, view_change, view_entry, view_keyboard, view_user

# What a page shows of a chat before somebody scrolls up.
NEWEST: Final = 60
# What a page knows of the requests before somebody looks further back.
NEWEST_CALLS: Final = 400
# A chatty bot makes hundreds of changes a second; a screen shows sixty pictures.
_TOGETHER: Final = 0.02
# Refunds fall due by themselves; and a page that hears nothing for longer believes that the line is cut.
_BEAT: Final = 1.0


@final
class Follower:
    """One page's place in all that happens."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world
        self._seq = 0
        self._calls = 0
        self._deliveries = 0
        self._lines = 0
        self._people = 0
        self._chats = 0
        self._said: JsonObject = {}

    def everything(self) -> JsonObject:
        """Return all there is. The next `news` begin here."""
        now = self._exchange.clock.now()
        self._world.catch_up(now)
        self._seq = self._world.seq
        self._people, self._chats = len(list(self._world.people)), len(list(self._world.chats()))
        self._calls, self._lines = self._exchange.traffic.version, 0
        deliveries = self._exchange.pusher.deliveries
        self._deliveries = deliveries.version
        self._said = {}
        chats: list[JsonValue] = [
            {**_head(chat), **view_history(chat, None, NEWEST)} for chat in self._world.chats()
        ]
        return {
            "all": True,
            "now": now,
            "base_url": self._world.base_url,
            "users": [view_user(user) for user in self._world.people],
            "chats": chats,
            "bills": [view_bill(bill, now) for bill in self._world.bills],
            "deliveries": [view_delivery(posted) for posted in deliveries.newest(NEWEST_CALLS)],
            **view_calls(self._exchange.traffic.newest(NEWEST_CALLS), self._exchange.traffic),
            **self._rest(),
        }

    def news(self) -> JsonObject | None:
        """Return what is new since the last call, or None; everything, if more has happened than is kept."""
        now = self._exchange.clock.now()
        self._world.catch_up(now)
        changes = self._world.changes(self._seq)
        if self._world.seq - self._seq > len(changes):
            return self.everything()
        news = self._rest()
        if changes:
            self._seq = self._world.seq
            news["changes"] = [view_change(change) for change in changes]
            self._concerned(news, changes, now)
        self._newcomers(news)
        return {"now": now, **news} if news else None

    def _newcomers(self, news: JsonObject) -> None:
        """Add the people and groups that were made since, which the world's log doesn't hold."""
        people, chats = list(self._world.people), list(self._world.chats())
        if len(people) > self._people:
            news["users"] = [view_user(user) for user in people]
        if len(chats) > self._chats:
            # One that has changed, too, is told twice.
            known = cast("list[JsonValue]", news.get("chats", []))
            news["chats"] = [*known, *(_head(chat) for chat in chats[self._chats :])]
        self._people, self._chats = len(people), len(chats)

    def _concerned(self, news: JsonObject, changes: Iterable[Change], now: int) -> None:
        """Add what the changes affect: the chats as they are now, their bills, all wallets if money moved."""
        ids = {change.what.chat_id for change in changes}
        news["chats"] = [_head(self._world.chat(chat_id)) for chat_id in sorted(ids)]
        news["bills"] = [view_bill(bill, now) for bill in self._world.bills if bill.chat_id in ids]
        if any(isinstance(change.what, MoneyMoved) for change in changes):
            news["users"] = [view_user(user) for user in self._world.people]

    def _rest(self) -> JsonObject:
        """Collect what is new outside the world: requests, faults, the clock, the bot's process."""
        exchange, news = self._exchange, JsonObject()
        if calls := exchange.traffic.since(self._calls):
            news["calls"] = [view_call(call) for call in calls]
        self._calls = exchange.traffic.version
        deliveries = exchange.pusher.deliveries
        if posted := deliveries.since(self._deliveries):
            news["deliveries"] = [view_delivery(one) for one in posted]
        self._deliveries = deliveries.version
        now = self._outside()
        news |= {name: view for name, view in now.items() if self._said.get(name, ...) != view}
        self._said = now
        if exchange.bot is not None and (lines := exchange.bot.lines(self._lines)):
            news["lines"] = [line for _, line in lines]
            self._lines = lines[-1][0]
        return news

    def _outside(self) -> JsonObject:
        """Return what is told whole whenever it is new."""
        exchange, bot = self._exchange, self._exchange.bot
        return {
            "machine": {
                "faults": [cast("JsonObject", attrs.asdict(fault)) for fault in exchange.plan.pending()],
                "switches": cast("JsonObject", attrs.asdict(self._world.switches)),
                "ahead": exchange.clock.ahead,
                "operations": [operation.path for operation in OPERATIONS],
            },
            "waiting": exchange.pusher.waiting,
            "address": exchange.view_address(),
            "bot": bot.view() if bot is not None else None,
            "runtime": bot.runtime() if bot is not None else {},
            "inside": _inside(bot),
            "crowd": None if exchange.crowds is None else exchange.crowds.crowd(),
            "travel": [] if exchange.travels is None else list(exchange.travels.view()),
            "held": [] if exchange.reload is None else list(exchange.reload.view()),
        }


def _inside(bot: BotProcess | None) -> JsonObject:
    chats: list[JsonValue] = [] if bot is None else list(bot.chats())
    return {"chats": chats, "payments": [] if bot is None else list(bot.payments())}


def view_history(chat: PlatformChat, before: int | None, count: int) -> JsonObject:
    """Return a chat's newest messages, or the newest before one of them, and whether there are older ones.

    With them what stands between them, the newest `count` of that, too.
    """
    entries = [entry for entry in chat.entries.values() if before is None or entry.id < before]
    older = len(entries) > count
    first = entries[-count].id if older else 0
    lines = [
        line
        for line in chat.lines
        if line.after is not None and first <= line.after and (before is None or line.after < before)
    ]
    return {
        "messages": [view_entry(entry) for entry in entries[-count:]],
        "lines": [view_change(line) for line in lines[-count:]],
        "older": older,
    }


def _head(chat: PlatformChat) -> JsonObject:
    waiting: list[JsonValue] = [
        {"callback_id": pressed.callback_id, "message_id": pressed.message_id, "user": pressed.by}
        for pressed in chat.pressed.values()
        if pressed.reply is None
    ]
    return {
        "id": chat.id,
        "name": chat.name,
        "members": list[JsonValue](sorted(chat.members)),
        "typing_until": chat.typing_until,
        "reply_keyboard": view_keyboard(chat.reply_keyboard),
        "waiting": waiting[-20:],
    }


def stream_blueprint(exchange: Exchange) -> Blueprint:
    """Return the routes of the stream."""
    blueprint = Blueprint("stream", __name__, url_prefix="/control")

    async def stream() -> Response:
        await trio.lowlevel.checkpoint()
        response = Response(events(exchange), 200, content_type="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        response.timeout = None
        return response

    async def line() -> None:
        await websocket.accept(subprotocol=PROTOCOL)  # pyright: ignore[reportUnknownMemberType]
        async with trio.open_nursery() as nursery:

            async def hear() -> None:
                # A page says nothing here; but only a listener notices that it has gone.
                while True:
                    await websocket.receive()

            nursery.start_soon(hear)
            async with aclosing(told(exchange)) as stream:
                async for news in stream:
                    # A surrogate that stands alone can be said in JSON only; no text frame could carry it.
                    await websocket.send(news.encode("utf-8", "replace").decode())

    blueprint.add_url_rule("/stream", view_func=stream, methods=["GET"])
    blueprint.add_websocket("/stream", "line", line)
    return blueprint


async def told(exchange: Exchange) -> AsyncGenerator[str]:
    """Yield the news of one page, for as long as it listens; what it reads too slowly comes together.

    Nothing (an empty text) is a beat.
    """
    follower = Follower(exchange)
    yield json_for_pages(follower.everything())
    heard = 0
    while True:
        with trio.move_on_after(_BEAT):
            heard = await exchange.wait_news(heard)
        await trio.sleep(_TOGETHER)
        news = follower.news()
        yield "" if news is None else json_for_pages(news)


async def events(exchange: Exchange) -> AsyncGenerator[bytes]:
    """Yield the same as server-sent events."""
    async with aclosing(told(exchange)) as stream:
        async for news in stream:
            # JSON has no line ends outside its escapes, so one line holds it.
            yield b"data: " + news.encode("utf-8", "replace") + b"\n\n" if news else b":\n\n"

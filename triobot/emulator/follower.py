"""The stream of a page: the complete state, then the changes. Pure, except for reads of the exchange.

State and changes are JSON objects with the same keys, which a page merges:

==============  ====================================================================================
``now``         the platform's clock
``users``       all people; in changes, only if people were added or wallets may have changed
``chats``       chats without their messages; in the state, also with the newest messages
``changes``     the world's changes, in order
``bills``       the payment buttons and invoices of these chats
``deliveries``  deliveries of events: the new and changed ones; in the state, the newest
``calls``       requests in both directions that began or ended; in the state, the newest;
                ``older_calls`` is whether older requests exist
``machine``     faults, switches, the clock; only if changed
``waiting``     number of events that wait for the bot; only if changed
``address``     whether a bot listens at the address of events; only if changed
``bot``         the bot's process, or null; only if changed
``runtime``     the bot's reported status; only if changed
``inside``      the bot's chats in memory, and its ledger; only if changed
``lines``       new lines of the process's output
``crowd``       state of the crowd under ``triobot dev``, else null; only if changed
``travel``      the passes over conversations' journals, and whether they are ready; only if changed
``held``        the conversations that hold back new code; only if changed
==============  ====================================================================================

A client with the control token gets the objects over a WebSocket, or as server-sent events. The page uses the
WebSocket. A browser allows six connections to one host for all of its tabs together, and an endless
answer occupies one connection. With server-sent events, the seventh tab would show nothing, and no tab could
send requests. WebSockets have a separate limit, of hundreds. Server-sent events are for programs, and for
``curl -N``. The browser's own `EventSource` can't send a header, and a token in an address would end up in
logs and histories.
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
from .exchange import Exchange
from .traffic import view_call, view_calls
from .views import JsonObject, json_for_pages, view_bill, view_change, view_entry, view_keyboard, view_user

# Number of a chat's newest messages that a page gets before the user scrolls up.
NEWEST: Final = 60
# Number of the newest requests that a page gets before the user scrolls to older requests.
NEWEST_CALLS: Final = 400
# Seconds in which changes are collected before they are sent to a page together. A busy bot makes hundreds of
# changes a second, but a screen shows only sixty pictures a second.
_TOGETHER: Final = 0.02
# Longest time between two checks for changes, in seconds. Refunds fall due without an act, so a check can't
# wait for an act. A page that receives nothing for six seconds considers the connection broken.
_BEAT: Final = 1.0

_NOTHING_BESIDE: Final[JsonObject] = {
    "runtime": {},
    "inside": {"chats": [], "payments": []},
    "crowd": None,
    "travel": [],
    "held": [],
}


@final
class Follower:
    """The position of one page in the stream."""

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
        """Return the complete state. The next call of `news` returns the changes since then."""
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
            "base_url": self._world.uploads.base_url,
            "users": [view_user(user) for user in self._world.people],
            "chats": chats,
            "bills": [view_bill(bill, now) for bill in self._world.bills],
            "deliveries": [view_delivery(posted) for posted in deliveries.newest(NEWEST_CALLS)],
            **view_calls(self._exchange.traffic.newest(NEWEST_CALLS), self._exchange.traffic),
            **self._rest(),
        }

    def news(self) -> JsonObject | None:
        """Return the changes since the last call, or None; the complete state if the log dropped changes."""
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
        """Add new people and chats to `news`. The world's log doesn't contain these additions."""
        people, chats = list(self._world.people), list(self._world.chats())
        if len(people) > self._people:
            news["users"] = [view_user(user) for user in people]
        if len(chats) > self._chats:
            # A new chat that has also changed is listed twice.
            known = cast("list[JsonValue]", news.get("chats", []))
            news["chats"] = [*known, *(_head(chat) for chat in chats[self._chats :])]
        self._people, self._chats = len(people), len(chats)

    def _concerned(self, news: JsonObject, changes: Iterable[Change], now: int) -> None:
        """Add the changed chats and their bills to `news`, and all people (with wallets) if money moved."""
        ids = {change.what.chat_id for change in changes}
        news["chats"] = [_head(self._world.chat(chat_id)) for chat_id in sorted(ids)]
        news["bills"] = [view_bill(bill, now) for bill in self._world.bills if bill.chat_id in ids]
        if any(isinstance(change.what, MoneyMoved) for change in changes):
            news["users"] = [view_user(user) for user in self._world.people]

    def _rest(self) -> JsonObject:
        """Return the news that the world's log doesn't contain: requests, faults, the clock, the process."""
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
        if exchange.beside is not None and (lines := exchange.beside.lines(self._lines)):
            news["lines"] = [line for _, line in lines]
            self._lines = lines[-1][0]
        return news

    def _outside(self) -> JsonObject:
        """Return the parts of the state that have no history. A changed part is sent as a whole."""
        exchange, beside = self._exchange, self._exchange.beside
        return {
            "machine": {
                "faults": [cast("JsonObject", attrs.asdict(fault)) for fault in exchange.plan.pending()],
                "switches": cast("JsonObject", attrs.asdict(self._world.switches)),
                "ahead": exchange.clock.ahead,
                "operations": [operation.path for operation in OPERATIONS],
            },
            "waiting": exchange.pusher.waiting,
            "address": exchange.view_address(),
            "bot": None if beside is None else beside.process(),
            **(_NOTHING_BESIDE if beside is None else beside.view()),
        }


def view_history(chat: PlatformChat, before: int | None, count: int) -> JsonObject:
    """Return a chat's newest messages, at most `count`, and whether older messages exist.

    With `before`, only messages with lower ids are returned. The lines between the messages are included, at
    most the newest `count`.
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
                # A page sends nothing over the WebSocket, but only a receiving task notices a disconnect.
                while True:
                    await websocket.receive()

            nursery.start_soon(hear)
            async with aclosing(change_texts(exchange)) as stream:
                async for news in stream:
                    # A bot's text may contain a lone surrogate, but a WebSocket's text frame can't.
                    await websocket.send(news.encode("utf-8", "replace").decode())

    blueprint.add_url_rule("/stream", view_func=stream, methods=["GET"])
    blueprint.add_websocket("/stream", "line", line)
    return blueprint


async def change_texts(exchange: Exchange) -> AsyncGenerator[str]:
    """Yield the complete state for one page, then the changes, as JSON. An empty text is a heartbeat.

    A slow page gets several changes in one text.
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
    """Yield the texts of `change_texts` as server-sent events."""
    async with aclosing(change_texts(exchange)) as stream:
        async for news in stream:
            # JSON has no line ends outside its escapes, so one data line is enough.
            yield b"data: " + news.encode("utf-8", "replace") + b"\n\n" if news else b":\n\n"

"""The webhook itself: checks each request, hands its event to the inbox, and answers.

The checks come in this order: the secret, the method, the length in the headers, the framing, the body
itself, the event. A request without the right secret gets the same 404, whatever it asks for, before a byte
of its body is read.

There are two more pages, for the supervisor of the process. The operator's commands have none: they do not
belong on a port that strangers reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never, final

import trio

from ..http.request import Incoming
from ..http.server_connection import Talk
from . import answers
from .answers import Readiness, Response, TrafficCounters, readiness_answer
from .exchange import (
    Complete,
    CutShort,
    DirectExchange,
    Malformed,
    RequestExchange,
    RequestFraming,
    TooLong,
    TooSlow,
    Truncated,
    framing_of,
    path_of,
    read_body,
)
from .inbox import EventStored, NoRoom, Outcome, Unreached, Unread, Unstorable, Unwritable, WayIn
from .limits import Limits
from .secrets import Secrets

HIDDEN_PATH: Final = "/***"
"""What logs show in place of a path, which may hold the secret or most of it."""

_GIVEN_UP_EVERY: Final = 0.0025

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"


@final
class Endpoint:
    """The webhook under one prefix.

    Args:
        inbox: takes the events.
        secrets: the accepted ones.
        limits: of one request and of all together.
        readiness: asked for each ``/readyz``; quick, and must not raise.
        prefix: the path in front, such as ``/bot``; empty if the webhook has the server to itself.
        traffic: counts what is refused before the inbox sees it.
        begins: called at each request in the task of a listener that others use, too.
    """

    def __init__(
        self,
        inbox: WayIn,
        secrets: Secrets,
        *,
        limits: Limits,
        readiness: Callable[[], Readiness],
        prefix: str = "",
        traffic: TrafficCounters | None = None,
        begins: Callable[[], None] | None = None,
    ) -> None:
        self.begins = begins
        self._inbox = inbox
        self._secrets = secrets
        self._limits = limits
        self._readiness = readiness
        self._prefix = prefix
        self._own_path = f"{prefix}/".encode()
        self._traffic = TrafficCounters() if traffic is None else traffic
        self._in_hand = 0
        self._given_up = trio.CapacityLimiter(1)
        self._later = answers.try_later(limits.retry_seconds)

    async def handle(self, talk: Talk) -> None:
        """Answer one request from our own listener.

        Cancellation: *ambiguous*, as `Inbox.accept`; the connection must be closed then.
        """
        request = talk.request
        length = request.length
        if length is None or not self._wants(request, length):
            path = path_of(request)[len(self._prefix) :]
            await self.respond(DirectExchange(talk), path, request.method, framing_of(request))
            return
        # The usual request: only its body can still be a reason to refuse it.
        self._in_hand += length
        try:
            if request.complete:
                body = b"".join(request.pieces)
                request.pieces.clear()
            else:
                limits = self._limits
                reading = await read_body(talk, most=limits.body_bytes, seconds=limits.body_seconds)
                if not isinstance(reading, Complete):
                    await self._cut_short(DirectExchange(talk), reading, framing_of(request))
                    return
                body = reading.body
            outcome = await self._inbox.accept(request.content_type, body)
            stayed = not talk.has_left()
            answer = answers.TAKEN if type(outcome) is EventStored else self._answer_to(outcome)
            await talk.answer(answer.status, answer.headers, answer.body)
            if type(outcome) is EventStored:
                if stayed:
                    self._inbox.answered(outcome)
                else:
                    self._traffic.unanswered += 1
        finally:
            self._in_hand -= length

    def _wants(self, request: Incoming, length: int) -> bool:
        """Return whether a request with a body of this length passes all checks of `respond`."""
        own = self._own_path
        return (
            request.method == "POST"
            and length <= self._limits.body_bytes
            and self._in_hand + length <= self._limits.bodies_bytes
            and request.target[: len(own)] == own
            and self._secrets.matches_bytes(request.target[len(own) :])
        )

    def count_unknown_path(self) -> None:
        """Count a request that named no secret of ours, and was answered by the server's own rules."""
        self._traffic.unknown_path += 1

    def accepts(self, path: str) -> bool:
        """Return whether a path below the prefix names this webhook's secret."""
        return self._secrets.matches(path.removeprefix("/"))

    async def respond(
        self, exchange: RequestExchange, path: str, method: str, framing: RequestFraming
    ) -> None:
        """Answer one request, whichever server it came through.

        Args:
            path: below the prefix.

        Cancellation: as `handle`.
        """
        if path in (ALIVE_PATH, READY_PATH):
            await self._refuse(exchange, self._probe(path, method), framing)
        elif not self._secrets.matches(path.removeprefix("/")):
            self._traffic.unknown_path += 1
            await self._refuse(exchange, answers.NOT_FOUND, framing)
        elif method != "POST":
            self._traffic.wrong_method += 1
            await self._refuse(exchange, answers.POST_ONLY, framing)
        elif framing.length is not None and framing.length > self._limits.body_bytes:
            self._traffic.too_long += 1
            await self._refuse(exchange, answers.TOO_LONG, framing)
        elif framing.conflicting:
            self._traffic.bad_framing += 1
            await exchange.refuse(
                answers.BAD_FRAMING,
                unread=framing.unread,
                linger=self._limits.linger_seconds,
                body_first=True,
            )
        else:
            await self._take_in_turn(exchange, framing)

    def _probe(self, path: str, method: str) -> Response:
        if method not in ("GET", "HEAD"):
            return answers.GET_ONLY
        return answers.ALIVE if path == ALIVE_PATH else readiness_answer(self._readiness())

    async def _refuse(self, exchange: RequestExchange, answer: Response, framing: RequestFraming) -> None:
        await exchange.refuse(answer, unread=framing.unread, linger=self._limits.linger_seconds)

    async def _take_in_turn(self, exchange: RequestExchange, framing: RequestFraming) -> None:
        # What is not told is taken for the most it may become; many long bodies at once must not add up.
        size = self._limits.body_bytes if framing.length is None else framing.length
        if self._in_hand + size > self._limits.bodies_bytes:
            self._traffic.overloaded += 1
            await self._refuse(exchange, self._later, framing)
            return
        self._in_hand += size
        try:
            await self._take(exchange, framing)
        finally:
            self._in_hand -= size

    async def _take(self, exchange: RequestExchange, framing: RequestFraming) -> None:
        reading = await exchange.read(most=self._limits.body_bytes, seconds=self._limits.body_seconds)
        if isinstance(reading, Complete):
            outcome = await self._inbox.accept(framing.content_type, reading.body)
            await exchange.answer(self._answer_to(outcome), partial(self._told, outcome))
        else:
            await self._cut_short(exchange, reading, framing)

    async def _cut_short(self, exchange: RequestExchange, why: CutShort, framing: RequestFraming) -> None:
        """Answer a request of which there is no whole body, and count it."""
        match why:
            case TooLong():
                self._traffic.too_long += 1
                await self._refuse(exchange, answers.TOO_LONG, framing)
            case TooSlow():
                self._traffic.too_slow += 1
                # Thousands may be over together, and come again once they are told: one after the other.
                async with self._given_up:
                    if self._given_up.statistics().tasks_waiting:
                        await trio.sleep(_GIVEN_UP_EVERY)
                # It has had its time: waiting for more of it is what is refused.
                await exchange.refuse(answers.TOO_SLOW, unread=True, linger=0)
            case Truncated():
                self._traffic.truncated += 1
            case Malformed():
                self._traffic.bad_framing += 1
            case _ as never:
                assert_never(never)

    def _told(self, outcome: Outcome, answered: bool) -> None:
        if isinstance(outcome, EventStored):
            if answered:
                self._inbox.answered(outcome)
            else:
                self._traffic.unanswered += 1

    def _answer_to(self, outcome: Outcome) -> Response:
        match outcome:
            case EventStored() | Unread():
                return answers.TAKEN
            case NoRoom() | Unwritable() | Unreached():
                return self._later
            case Unstorable():
                return answers.UNSTORABLE
            case _ as never:
                assert_never(never)


@final
class SharedEndpoint:
    """The webhooks of several bots behind one listener: each has a path of its own, its secret."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints

    async def handle(self, talk: Talk) -> None:
        """Answer one request: by the webhook whose secret it names, else by the first.

        Cancellation: as `Endpoint.handle`.
        """
        endpoint = self.find(path_of(talk.request))
        if endpoint.begins is not None:
            endpoint.begins()
        await endpoint.handle(talk)

    def find(self, path: str) -> Endpoint:
        """Return the endpoint of the webhook whose secret a path names, else the first."""
        return next((one for one in self._endpoints if one.accepts(path)), self._endpoints[0])

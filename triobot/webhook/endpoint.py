"""The webhook's endpoint: checks each request, passes the event to the inbox, and answers.

The order of the checks: the secret, the method, the length in the headers, the framing, the body, the event.
Every request without an accepted secret gets the same 404, before a byte of its body is read.

Two more pages, ``/healthz`` and ``/readyz``, are for the process's supervisor. There are no pages for the
operator's commands, since strangers reach the webhook's port.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never

import trio

from . import answers
from .answers import Readiness, Response, TrafficCounters, readiness_answer
from .exchange import CutShort, RequestExchange, RequestFraming
from .inbox import EventStored, Inbox, Outcome
from .limits import Limits
from .secrets import Secrets

ACCESS: Final = logging.getLogger("triobot.webhook.access")
HIDDEN_PATH: Final = "/***"
"""Replacement in logs for a path, which may contain the secret or most of it."""

_GIVEN_UP_EVERY: Final = 0.0025
LEFT_AFTER: Final = 7.0
"""Seconds after which a proxy with a timeout of 6 s has sent the request to another process."""

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"


class Endpoint:
    """The webhook, independent of the server.

    Args:
        inbox: stores the events.
        secrets: accepted secrets.
        limits: limits of a request and of all requests together.
        readiness: called for each ``/readyz``; must be quick and must not raise.
        traffic: counters of the requests refused before the inbox.
        begins: called at the start of each request, in the request's task, if several bots share a listener.
    """

    def __init__(
        self,
        inbox: Inbox,
        secrets: Secrets,
        *,
        limits: Limits,
        readiness: Callable[[], Readiness],
        traffic: TrafficCounters | None = None,
        begins: Callable[[], None] | None = None,
    ) -> None:
        self.begins = begins
        self._inbox = inbox
        self._secrets = secrets
        self._limits = limits
        self._readiness = readiness
        self._traffic = TrafficCounters() if traffic is None else traffic
        self._in_hand: int = 0
        self._given_up = trio.CapacityLimiter(1)
        self._later = answers.try_later(limits.retry_seconds)

    def count_unknown_path(self) -> None:
        """Count a request that the server itself has refused because the path has no accepted secret."""
        self._traffic.unknown_path += 1

    def accepts(self, path: str) -> bool:
        """Return whether `path` contains an accepted secret of this webhook."""
        return self._secrets.matches(path.removeprefix("/"))

    async def respond(
        self, exchange: RequestExchange, path: str, method: str, framing: RequestFraming
    ) -> None:
        """Answer a request.

        Args:
            path: decoded path, without the prefix of a site.

        Cancellation: *ambiguous*, as `Inbox.accept`; the caller must then close the connection.
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
        # A body of unknown length is counted as the longest allowed body, so that many long bodies at once
        # can't exceed the memory for bodies.
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
        if isinstance(reading, bytes):
            if self._inbox.shared and exchange.has_left():
                outcome: Outcome = "unreached"
            else:
                came = trio.current_time()
                outcome = await self._inbox.accept(framing.content_type, reading)
                if self._inbox.shared and outcome == "unwritable":
                    # Wait until the proxy has timed out, and has sent the request to another process, which
                    # may be able to write. The proxy would pass an earlier refusal on to the sender.
                    await trio.sleep_until(came + LEFT_AFTER)
            await exchange.answer(self._answer_to(outcome), partial(self._note_written, outcome))
        else:
            await self._cut_short(exchange, reading, framing)

    async def _cut_short(self, exchange: RequestExchange, why: CutShort, framing: RequestFraming) -> None:
        """Count a request with an incomplete body, and refuse the request if the sender is still
        connected.
        """
        match why:
            case "too long":
                self._traffic.too_long += 1
                await self._refuse(exchange, answers.TOO_LONG, framing)
            case "too slow":
                self._traffic.too_slow += 1
                # Thousands of senders may time out together, and retry as soon as they are answered. So
                # senders are answered one after the other.
                async with self._given_up:
                    if self._given_up.statistics().tasks_waiting:
                        await trio.sleep(_GIVEN_UP_EVERY)
                # Close the connection without a linger time: the sender has had enough time.
                await exchange.refuse(answers.TOO_SLOW, unread=True, linger=0)
            case "truncated":
                self._traffic.truncated += 1
            case "malformed":
                self._traffic.bad_framing += 1
            case _ as never:
                assert_never(never)

    def _note_written(self, outcome: Outcome, answered: bool) -> None:
        if isinstance(outcome, EventStored):
            if answered:
                self._inbox.answered(outcome)
            else:
                self._traffic.unanswered += 1

    def _answer_to(self, outcome: Outcome) -> Response:
        match outcome:
            case EventStored() | "unread":
                return answers.TAKEN
            case "no room" | "unwritable" | "unreached":
                return self._later
            case "unstorable":
                return answers.UNSTORABLE
            case _ as never:
                assert_never(never)


def endpoint_of(endpoints: Sequence[Endpoint], path: str) -> Endpoint:
    """Return the endpoint that accepts the secret in `path`; without such an endpoint, return the first
    endpoint.
    """
    return next((one for one in endpoints if one.accepts(path)), endpoints[0])

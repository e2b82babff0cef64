"""Traces by OpenTelemetry's API, with spans for requests to the webhook, acceptances, turns, steps, sends and
verifications.

A conversation's spans form one trace, over all restarts of the program. The trace's id is derived from the
numbers of the conversation and of its run, with the store's key. So no trace id has to be stored. A
conversation has the number of its first event. So the acceptance of this event belongs to the conversation's
trace. If a turn of another conversation gets the event, the turn's span links to the acceptance.

Only this module imports OpenTelemetry, and a bot without traces doesn't import this module. The author's
program configures OpenTelemetry's SDK, which keeps and exports spans. No span contains users' messages or an
error's text. A span names a chat by its digest, as the log does.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from ..conversations.conversation import Conversation
from ..conversations.running.lines import steps_inner
from ..engine import Crashed
from ..seams.inbox import Acceptance, InboxRow
from ..seams.outbox import Outbox, Platform
from ..store import Store
from ..webhook.inbox import Inbox, Outcome
from ..wire.events import Event
from ..wire.ids import ChatId
from ..wire.operations import Operation
from .logs import Speaker

if TYPE_CHECKING:
    from contextvars import Token

T = TypeVar("T")

_REMEMBERED: Final = 10_000
_OWNER: Final = re.compile(r"-?[0-9]+/([0-9]+)(?:/r([0-9]+))?")
_HALF: Final = 1 << 64


@final
class Tracing:
    """Makes the spans of a bot.

    Args:
        speaker: the bot's identity, and digests of its chats.
        share: share of the traces that are kept, from 0 for none to 1 for all. A trace is kept whole or not
            at all.
    """

    def __init__(self, speaker: Speaker, share: float = 1.0) -> None:
        self._speaker = speaker
        self._bound = int(share * _HALF)
        self._tracer = trace.get_tracer("triobot")
        # Span of each acceptance since the program's start, by the event's number; the oldest are dropped.
        self._accepted: OrderedDict[int, SpanContext] = OrderedDict()
        # Event that begins the next turn, by the conversation's number.
        self._brought: dict[int, int] = {}
        # Context with the span of each operation that is being sent, by the `id()` of the operation.
        self._sent: dict[int, Context] = {}

    # --- the trace of an event

    def place_of(self, conversation: int, run: int = 1) -> SpanContext:
        """Return the trace id of a conversation's run, and the span id of the parent of the run's spans."""
        digest = hashlib.blake2b(
            self._speaker.digest(f"{conversation}/{run}").encode(), digest_size=24
        ).digest()
        number, root = int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:], "big")
        kept = TraceFlags.SAMPLED if number % _HALF < self._bound else TraceFlags.DEFAULT
        return SpanContext(number, root, is_remote=True, trace_flags=TraceFlags(kept))

    def _within(self, place: SpanContext) -> Context:
        return trace.set_span_in_context(NonRecordingSpan(place), Context())

    def _named(self, **more: str | int) -> Mapping[str, str | int]:
        return {
            "triobot.bot": self._speaker.name,
            **{f"triobot.{name}": value for name, value in more.items()},
        }

    # --- incoming events

    @contextmanager
    def tracing_inbox(self, inbox: Inbox, store: Store) -> Generator[None]:
        """While the block runs, make a span for each webhook request, and a span for the acceptance of the
        request's event.
        """
        accept, keep = inbox.accept, store.accept

        async def take(content_type: str, body: bytes, event: Event | None = None) -> Outcome:
            came = contexts.attach(contexts.set_value(_CAME, [time.time_ns()]))
            result = "cut"
            try:
                outcome = await accept(content_type, body, event)
                result = outcome if isinstance(outcome, str) else type(outcome).__name__
            finally:
                self._came(cast("list[Any]", contexts.get_value(_CAME)), result)
                contexts.detach(came)
            return outcome

        def store_it(
            arrival: Any, *, on_commit: Callable[[InboxRow], None] | None = None, **more: Any
        ) -> Awaitable[Acceptance]:
            noted, began = contexts.get_value(_CAME), time.time_ns()

            def committed(row: InboxRow) -> None:
                self._stored(cast("list[Any] | None", noted), row, began)
                if on_commit is not None:
                    on_commit(row)

            return keep(arrival, on_commit=committed, **more)

        inbox.accept = take  # type: ignore[method-assign]
        store.accept = store_it  # type: ignore[method-assign]
        try:
            yield
        finally:
            del inbox.accept, store.accept  # the classes' own methods apply again

    def _stored(self, noted: list[Any] | None, row: InboxRow, began: int) -> None:
        """Make a stored event's spans. End the acceptance's span at once, before the event is handled."""
        request, accepted = self._arrived(noted, row.seq, row.chat_id, began)
        accepted.end()
        if noted is None:
            request.end()
        else:
            noted.append(request)

    def _arrived(self, noted: list[Any] | None, seq: int, place: ChatId, began: int) -> tuple[Span, Span]:
        came = began if noted is None else cast("int", noted[0])
        named = self._named(event=seq, chat=self._speaker.digest(place))
        within = self._within(self.place_of(seq))
        request = self._tracer.start_span(
            "webhook", within, SpanKind.SERVER, attributes=named, start_time=came
        )
        accepted = self._tracer.start_span(
            "accept", trace.set_span_in_context(request, within), attributes=named, start_time=began
        )
        self._accepted[seq] = accepted.get_span_context()
        if len(self._accepted) > _REMEMBERED:
            self._accepted.popitem(last=False)
        return request, accepted

    def _came(self, noted: list[Any], outcome: str) -> None:
        """End the spans of a request that was answered or cancelled."""
        spans = cast("list[Span]", noted[1:])
        if not spans:  # no new event: the request was refused, or is a repetition
            spans = [self._tracer.start_span("webhook", Context(), SpanKind.SERVER, start_time=noted[0])]
        for span in spans:
            span.set_attributes({**self._named(outcome=outcome)})
            span.end()

    # --- a conversation

    def brought(self, conversation: Conversation, event: int) -> None:
        """Record the number of the event that begins the conversation's next turn."""
        self._brought[conversation.facts.seq] = event
        noted = cast("list[Any] | None", contexts.get_value(_CAME))
        if noted is not None and len(noted) == 1:
            # The request isn't answered yet: the event is stored together with the conversation's first
            # records.
            request, accepted = self._arrived(noted, event, conversation.facts.chat_id, time.time_ns())
            noted += [accepted, request]

    def drive(self, conversation: Conversation, inner: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return a coroutine that awaits `inner`, a conversation's coroutine, and makes a span for each turn:
        from the event until the conversation waits.
        """
        return cast("Coroutine[Any, Any, T]", _drive(self, conversation, inner))

    def begin_turn(self, conversation: Conversation) -> Span:
        facts = conversation.facts
        event = self._brought.pop(facts.seq, facts.seq)
        accepted = self._accepted.get(event) or self.place_of(event)
        links = [Link(accepted)]
        named = self._named(
            conversation=facts.seq,
            run=facts.run_number,
            route=facts.route.name,
            event=event,
            chat=self._speaker.digest(facts.chat_id),
        )
        name = "replay" if conversation.replaying else "turn"
        place = self._within(self.place_of(facts.seq, facts.run_number))
        return self._tracer.start_span(
            f"{name} {facts.route.name}", place, SpanKind.CONSUMER, attributes=named, links=links
        )

    def forget(self, conversation: Conversation) -> None:
        self._brought.pop(conversation.facts.seq, None)

    def stepping(self, name: str, body: Callable[[], Awaitable[T]]) -> Callable[[], Coroutine[Any, Any, T]]:
        """Return a function that runs a step's `body` in a span."""

        async def traced() -> T:
            with self.span(f"step {name}"):
                return await body()

        return traced

    @contextmanager
    def span(
        self, name: str, kind: SpanKind = SpanKind.INTERNAL, within: Context | None = None, **more: str | int
    ) -> Generator[Span]:
        """Make a span for the block. If the block raises, the span records only the error's class."""
        began = self._tracer.start_as_current_span(
            name,
            within,
            kind,
            attributes=self._named(**more),
            record_exception=False,
            set_status_on_exception=False,
        )
        with began as span:
            try:
                yield span
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    @contextmanager
    def asking(self, owner: str, to: str) -> Generator[None]:
        """Make a span for a payment's request, in the trace of the conversation that owns the payment."""
        found = _OWNER.match(owner)
        place = None if found is None else self.place_of(int(found[1]), int(found[2] or 1))
        within = Context() if place is None else self._within(place)
        with self.span(to, SpanKind.INTERNAL, within):
            yield

    # --- outgoing operations

    def trace_outbox(self, outbox: Outbox) -> Outbox:
        """Return an outbox that makes a span for each operation, from the call to the operation's outcome."""
        return cast("Outbox", _TracedOutbox(self, outbox))

    def trace_platform(self, platform: Platform) -> Platform:
        """Return a platform that makes a span for each attempt."""
        return _TracedPlatform(self, platform)

    @contextmanager
    def sending(self, operation: Operation[Any]) -> Generator[None]:
        """Make a span for an operation. Spans of the operation's attempts become children of this span."""
        with self.span(f"send {operation.path}", SpanKind.PRODUCER, operation=operation.path):
            self._sent[id(operation)] = contexts.get_current()
            try:
                yield
            finally:
                self._sent.pop(id(operation), None)

    @contextmanager
    def attempting(self, operation: Operation[Any]) -> Generator[None]:
        """Make a span for an attempt to send an operation. The parent span is passed explicitly, since the
        current task may send other chats' operations, too.
        """
        within = self._sent.get(id(operation), Context())
        with self.span(f"request {operation.path}", SpanKind.CLIENT, within, operation=operation.path):
            yield


_CAME: Final = contexts.create_key("triobot came")


@steps_inner
@coroutine
def _drive(
    tracing: Tracing, conversation: Conversation, inner: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    sent: Any = None
    error: BaseException | None = None
    span: Span | None = None
    token: Token[Context] | None = None

    def end(failed: BaseException | None = None) -> None:
        nonlocal span, token
        if failed is not None and span is not None and isinstance(failed, Exception):
            span.set_status(Status(StatusCode.ERROR, type(failed).__name__))
        if token is not None:
            contexts.detach(token)
        if span is not None:
            span.end()
        span = token = None

    try:
        while True:
            if span is None:
                span = tracing.begin_turn(conversation)
                token = contexts.attach(trace.set_span_in_context(span))
            try:
                trap = inner.send(sent) if error is None else inner.throw(error)
            except StopIteration as stopped:
                if isinstance(stopped.value, Crashed):
                    end(stopped.value.error)
                return cast("T", stopped.value)
            if conversation.is_waiting:
                end()
            sent = error = None
            try:
                sent = yield trap
            except BaseException as raised:  # the inner coroutine may catch the error
                error = raised
    except BaseException as failed:
        end(failed)
        raise
    finally:
        end()
        tracing.forget(conversation)


@final
class _TracedOutbox:
    def __init__(self, tracing: Tracing, outbox: Outbox) -> None:
        self._tracing = tracing
        self._outbox = outbox

    async def perform(self, operation: Operation[T], **how: Any) -> T:
        with self._tracing.sending(operation):
            return await self._outbox.perform(operation, **how)

    async def answer(self, press: Any, text: str, *, alert: bool) -> bool:
        with self._tracing.span("answer"):
            return await self._outbox.answer(press, text, alert=alert)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)


@final
class _TracedPlatform:
    """A platform without `begin`. So the outbox awaits `perform` for each request, and the request's span is
    the task's current span.
    """

    def __init__(self, tracing: Tracing, platform: Platform) -> None:
        self._tracing = tracing
        self._platform = platform

    async def perform(self, operation: Operation[T]) -> T:
        with self._tracing.attempting(operation):
            return await self._platform.perform(operation)

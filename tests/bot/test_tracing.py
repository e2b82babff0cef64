"""Traces that a bot makes with OpenTelemetry's API, recorded by OpenTelemetry's SDK."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import httpx
import pytest
import trio
import trio.testing
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE, open_platform
from tests.payments.payments_rig import button
from triobot import Bot, Chat, Settings
from triobot.base.clock import SystemClock, Timepiece
from triobot.errors import ConfigError
from triobot.payments import asking
from triobot.payments.cashier import Cashier
from triobot.runtime.logs import Speaker
from triobot.runtime.tracing import Tracing
from triobot.runtime.work import Intake
from triobot.store.memory import open_memory

CANARY = "canary-Valiasr-7"
EXPORTER = InMemorySpanExporter()
CHAT = 1234567


@attrs.frozen
class Seen:
    """The spans that ended."""

    def all(self) -> list[ReadableSpan]:
        return list(EXPORTER.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those whose names begin so, in the order in which they began."""
        return sorted(
            (one for one in self.all() if one.name.startswith(name)), key=lambda one: one.start_time or 0
        )

    def shown(self) -> str:
        """All that an exporter would send."""
        return "".join(span.to_json() for span in self.all())

    async def wait_for(self, name: str, count: int = 1) -> list[ReadableSpan]:
        with trio.fail_after(PATIENCE):
            while len(found := self.named(name)) < count:
                await trio.sleep(0.01)
        return found


@pytest.fixture
def seen() -> Iterator[Seen]:
    """The SDK, with an exporter that remembers."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield Seen()
    EXPORTER.clear()


def settings(folder: Path, **more: object) -> Settings:
    given = make_bot(Chats(), store=f"sqlite:{folder}/shop.db").settings()
    return attrs.evolve(given, **{"trace_share": 1.0, **more})  # type: ignore[arg-type]


def shop(chats: Chats, given: Settings) -> Bot:
    bot = Bot(settings=given, transport=httpx.MockTransport(chats.take))

    async def bake(size: str) -> str:
        with trace.get_tracer("kitchen").start_as_current_span("oven"):
            await trio.lowlevel.checkpoint()
        return size

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("What?")
        size = await chat.ask("Which size?")
        await chat.send(await chat.step(bake, size))
        if await chat.ask("And?") == "crash":
            raise ValueError(CANARY)

    return bot


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


async def crash(chats: Chats, intake: Intake) -> None:
    """Have the order end with an error."""
    await say(intake, CHAT, "hi")
    await chats.wait_for(CHAT, "What?", "Which size?")
    await say(intake, CHAT, "large")
    await chats.wait_for(CHAT, "What?", "Which size?", "large", "And?")
    await say(intake, CHAT, "crash")


async def test_a_trace_goes_from_the_webhook_to_the_platform(tmp_path: Path, seen: Seen) -> None:
    chats = Chats()
    async with shop(chats, settings(tmp_path)).running() as intake:
        await say(intake, CHAT, f"hi {CANARY}")
        await chats.wait_for(CHAT, "What?", "Which size?")
        (turn,) = await seen.wait_for("turn")
        (webhook,), (accept,) = seen.named("webhook"), seen.named("accept")
        # All spans are in one trace, since this event begins the conversation.
        assert len({trace_of(span) for span in seen.all()}) == 1
        assert parent_of(accept) == id_of(webhook)
        assert webhook.kind is SpanKind.SERVER
        assert [link.context.span_id for link in turn.links] == [id_of(accept)]
        sends, requests = seen.named("send sendMessage"), seen.named("request sendMessage")
        assert len(sends) == len(requests) == 2
        for send, request in zip(sends, requests, strict=True):
            assert parent_of(send) == id_of(turn)
            assert parent_of(request) == id_of(send)
            assert request.kind is SpanKind.CLIENT

        EXPORTER.clear()
        await say(intake, CHAT, "large")
        await chats.wait_for(CHAT, "What?", "Which size?", "large", "And?")
        (second,) = await seen.wait_for("turn")
        (answer,) = seen.named("accept")
        assert trace_of(second) == trace_of(turn) != trace_of(answer)
        assert [link.context.trace_id for link in second.links] == [trace_of(answer)]
        (step,), (oven,) = seen.named("step"), seen.named("oven")
        assert parent_of(step) == id_of(second)
        assert parent_of(oven) == id_of(step)  # the author's own
        assert dict(second.attributes or {})["triobot.route"].endswith("order")  # type: ignore[union-attr]
    assert CANARY not in seen.shown()
    assert str(CHAT) not in seen.shown()


async def test_a_trace_outlives_the_program(tmp_path: Path, seen: Seen) -> None:
    """What the next life does is in it, and linked to where the event was accepted."""
    chats = Chats()
    async with shop(chats, settings(tmp_path)).running() as intake:
        await say(intake, CHAT, "hi")
        await chats.wait_for(CHAT, "What?", "Which size?")
        (before,) = await seen.wait_for("turn")
    EXPORTER.clear()
    async with shop(chats, settings(tmp_path)).running() as intake:
        await say(intake, CHAT, "large")
        await chats.wait_for(CHAT, "What?", "Which size?", "large", "And?")
        await seen.wait_for("step")
        with trio.fail_after(PATIENCE):
            while len(seen.named("send")) < 2:
                await trio.sleep(0.01)
        mine = [span for span in seen.all() if trace_of(span) == trace_of(before)]
        assert {"step", "send", "request"} <= {span.name.partition(" ")[0] for span in mine}
        # No earlier operation is repeated or traced again.
        assert len(seen.named("send sendMessage")) == 2
    linked = {
        link.context.trace_id for span in seen.named("turn") + seen.named("replay") for link in span.links
    }
    assert trace_of(seen.named("accept")[0]) in linked


async def test_of_an_error_only_its_class_is_told(tmp_path: Path, seen: Seen) -> None:
    chats = Chats()
    async with shop(chats, settings(tmp_path)).running() as intake:
        await crash(chats, intake)
        with trio.fail_after(PATIENCE):
            while not any(span.status.description == "ValueError" for span in seen.named("turn")):
                await trio.sleep(0.01)
    assert CANARY not in seen.shown()


async def test_a_trace_is_kept_whole_or_not_at_all(tmp_path: Path, seen: Seen) -> None:
    chats = Chats()
    async with shop(chats, settings(tmp_path, trace_share=0.0)).running() as intake:
        await say(intake, CHAT, "hi")
        await chats.wait_for(CHAT, "What?", "Which size?")
    assert [span.name for span in seen.all()] == []


async def test_a_request_that_is_refused_is_a_span_of_its_own(tmp_path: Path, seen: Seen) -> None:
    async with shop(Chats(), settings(tmp_path)).running() as intake:
        await intake.inbox.accept("text/plain", b"\xff")
    (webhook,) = seen.named("webhook")
    assert dict(webhook.attributes or {})["triobot.outcome"] == "unread"


async def test_instrumented_httpx_is_seen_within_the_request(tmp_path: Path, seen: Seen) -> None:
    """Of what goes through httpx; each in the trace of its own conversation."""
    HTTPXClientInstrumentor().instrument()
    try:
        async with open_platform() as platform:
            bot = Bot(
                settings=settings(tmp_path, base_url=platform.url), transport=httpx.AsyncHTTPTransport()
            )
            bot.conversation(hello)
            async with bot.running() as intake:
                for number in range(3):
                    await say(intake, CHAT + number, "hi")
                posts = await seen.wait_for("POST", 3)
                requests = await seen.wait_for("request", 3)
    finally:
        HTTPXClientInstrumentor().uninstrument()
    assert {parent_of(post) for post in posts} == {id_of(request) for request in requests}
    assert len({trace_of(post) for post in posts}) == 3


async def hello(chat: Chat) -> None:
    await chat.send("Hello.")


@pytest.mark.slow
def test_a_bot_without_traces_loads_nothing_for_them() -> None:
    loaded = (
        "import sys, trio; from tests.bot.rig import *; from triobot import Chat\n"
        "bot = make_bot(Chats())\n"
        "@bot.conversation\n"
        "async def hello(chat: Chat) -> None: ...\n"
        "async def main() -> None:\n"
        "    async with bot.running(): pass\n"
        "trio.run(main); print(*sys.modules)"
    )
    names = subprocess.run(
        [sys.executable, "-c", loaded], check=True, capture_output=True, text=True, env={**os.environ}
    ).stdout.split()
    assert "triobot.runtime.work" in names
    assert not {name for name in names if name.startswith(("opentelemetry", "triobot.runtime.tracing"))}


async def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "triobot.runtime.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(BaseExceptionGroup) as failed:
        async with shop(Chats(), settings(tmp_path)).running():
            pass
    assert failed.group_contains(ConfigError, match=r"triobot-runtime\[otel\]")


class World:
    """Notes in which trace the ledger asks."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def ask(self, outbox: Any, entry: Any, to: str) -> Any:
        self.asked.append((to, trace.get_current_span().get_span_context().trace_id))
        await trio.lowlevel.checkpoint()


async def test_a_verification_is_in_the_trace_of_who_asked_for_it(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the program was started in between: the payment names its conversation."""
    world, tracing = World(), Tracing(Speaker("shop", "key", str))
    monkeypatch.setattr(asking, "ask", world.ask)
    async with open_memory(clock=SystemClock()) as store:
        clock = Timepiece(SystemClock())
        cashier = Cashier(
            store, cast("Any", None), clock, deliver=cast("Any", None), ring=print, tracing=tracing.asking
        )
        for owner in (f"{CHAT}/41/7", f"{CHAT}/41/r2/7"):
            await cashier.ask(attrs.evolve(button(), owner=owner), "verify")
    expected = [tracing.place_of(41).trace_id, tracing.place_of(41, 2).trace_id]
    assert world.asked == [("verify", one) for one in expected]
    assert [trace_of(span) for span in seen.named("verify")] == expected

"""Two bots of one process with an operator's tools: OpenTelemetry's SDK and Sentry's.

What these would send is in the folder of the variable ``SEEN``: the spans in one file, and what Sentry gets
in another.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import httpx
import sentry_sdk
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from triobot import Bot, Chat, Failure
from triobot.filters import message

SEEN = Path(os.environ["SEEN"])


class Kept(Transport):
    """Keeps what would be sent, as it would be sent."""

    def capture_envelope(self, envelope: Envelope) -> None:
        with (SEEN / "sentry").open("ab") as file:
            for item in envelope.items:
                file.write(item.get_bytes() + b"\n")


def one_line(span: ReadableSpan) -> str:
    return str(span.to_json(indent=None)) + "\n"


provider = TracerProvider()
spans = (SEEN / "spans").open("a", buffering=1)
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans, formatter=one_line)))
trace.set_tracer_provider(provider)
HTTPXClientInstrumentor().instrument()
sentry_sdk.init(dsn="https://key@example.org/1", transport=Kept)

shop = Bot(env="SHOP_", transport=httpx.AsyncHTTPTransport())
desk = Bot(env="DESK_", transport=httpx.AsyncHTTPTransport())


async def bake() -> None:
    with trace.get_tracer("kitchen").start_as_current_span("oven"):
        raise LookupError("the oven is cold")


@shop.conversation
async def order(chat: Chat) -> None:
    await chat.send("Which number do we call?")
    await chat.receive(message())
    await bake()


@desk.conversation
async def answer(chat: Chat) -> None:
    await chat.send("Somebody will be with you.")


async def report(name: str, failure: Failure) -> None:
    with sentry_sdk.new_scope() as scope:
        scope.set_tag("bot", name)
        scope.set_tag("route", failure.route)
        scope.capture_exception(failure.error)


for its_name, its_bot in (("shop", shop), ("desk", desk)):
    its_bot.on_error(partial(report, its_name))

"""What reaches the terminal: plain lines, with nothing in them that a terminal would act upon.

Names, texts and file names come from strangers. A control character in one of them could move the cursor,
forge a log line or turn the rest of a line around; here it becomes its escape.
"""

from __future__ import annotations

import io
import logging
import signal
import sys
import unicodedata
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, TextIO, TypeAlias, final

import trio

from ..jobs import BroadcastStatus

# Cc: controls; Cs: lone surrogates; Zl and Zp: line ends to some readers.
_ESCAPED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})

# They reorder what follows them. The joiners and the plain marks of Persian text (Cf too) only shape it.
_REORDERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_WIDTH: Final = 30


def harmless(text: str) -> str:
    """Write every control character of a text, line ends too, as its escape.

    Examples:
        >>> harmless("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(_escaped(sign) if _acts(sign) else sign for sign in text)


def _acts(sign: str) -> bool:
    return sign in _REORDERING or unicodedata.category(sign) in _ESCAPED


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


@final
class PlainFormatter(logging.Formatter):
    """One line a record; a traceback's lines are marked, so that none can pass for a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = harmless(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExcInfo) -> str:
        return _marked(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _marked(super().formatStack(stack_info))


def _marked(text: str) -> str:
    return "\n".join(f"  | {harmless(line)}" for line in text.split("\n"))


def set_up_logging(
    stream: TextIO | None = None, *, debug: bool = False, level: int = logging.INFO, access: bool = False
) -> None:
    """Log to `stream`, the error output by default, in one plain format.

    Args:
        debug: show triobot's own debug records, too.
        level: the least that is shown.
        access: show a line for each request to the webhook, too.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("triobot").setLevel(logging.DEBUG if debug else level)
    # At INFO these write whole addresses, and the webhook's has a secret in it.
    for name in ("httpx", "httpcore", "hypercorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # A line a request says little, and costs a good part of what an echo costs.
    logging.getLogger("triobot.webhook.access").setLevel(logging.INFO if access else logging.WARNING)


def set_up_streams() -> None:
    """Let what a terminal's encoding lacks be escaped, rather than end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drawn(share: float) -> str:
    """Draw a bar, of which this share is full.

    Examples:
        >>> drawn(0.5)
        '[###############---------------] '
    """
    full = int(share * _WIDTH)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] "


def progress_line(key: str, status: BroadcastStatus, *, bar: bool = True) -> str:
    """Write a broadcast's line; without the bar where the output is no terminal.

    Examples:
        >>> progress_line("news", BroadcastStatus("sending", 200, sent=90, gone=10), bar=False)
        'news: sending, 100 of 200 (50 %), 90 sent, 10 gone, 0 failed, 0 unknown'
    """
    if status.state == "none":
        return f"{harmless(key)}: never started"
    behind = status.total - status.left
    share = behind / status.total if status.total else float(status.over)
    line = ""
    if bar:
        line = drawn(share)
    return (
        f"{harmless(key)}: {line}{status.state}, {behind:,} of {status.total:,} ({int(share * 100)} %),"
        f" {status.sent:,} sent, {status.gone:,} gone, {status.failed:,} failed, {status.unknown:,} unknown"
    )


async def until_signal(work: Callable[[], Awaitable[None]]) -> bool:
    """Run `work` to its end, or until SIGINT or SIGTERM cancels it.

    Returns: whether a signal did.
    """
    interrupted = False
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal interrupted
                async for _ in signals:
                    interrupted = True
                    nursery.cancel_scope.cancel()
                    return

            nursery.start_soon(watch)
            await work()
            nursery.cancel_scope.cancel()
    return interrupted

"""Output to the terminal: plain lines, without characters that control a terminal.

Names, texts and file names come from strangers. A control character in such a text could move the cursor,
forge a log line or reverse a line's direction. Here each control character becomes an escape sequence.

A failed command prints one line per cause, and ends with an exit code. For triobot's own errors, the line is
the error's text. For other errors, the line has only the error's type and the line of code, since the text
may be secret; ``--debug`` shows everything.
"""

from __future__ import annotations

import errno
import logging
import sys
import traceback
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TextIO, final

import trio

from ..base.authors import kind_of, leaves
from ..base.signals import hearing_signals
from ..errors import ExitError, TriobotError
from ..runtime.logs import ExcInfo, JsonFormatter
from ..seams.broadcasts import BroadcastStatus
from ..seams.resources import about_opening

# Cc: controls; Cs: lone surrogates; Zl and Zp: line ends for some programs.
_ESCAPED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})

# These characters of category Cf reorder the text after them. Joiners and signs of Persian text are in Cf,
# too, but only shape the letters.
_REORDERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_WIDTH: Final = 30
FAILED: Final = 1
INTERRUPTED: Final = 130  # 128 + SIGINT, as in shells


def harmless(text: str) -> str:
    """Replace each control character of a text, including line ends, by an escape.

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
    """Formats a log record as one line. A traceback's lines are marked, so that no such line looks like a log
    record.

    Args:
        variables: show the variables of a traceback's frames, too.
        whole: show the frames of triobot and of libraries, too.
        brief: show the same traceback at most twice in a row.
    """

    def __init__(self, *, variables: bool = False, whole: bool = False, brief: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._variables = variables
        self._whole = whole
        self._brief = brief
        self._shown: tuple[str, int] = ("", 0)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = harmless(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExcInfo) -> str:
        if self._whole or ei[1] is None:
            return _marked(super().formatException(ei))
        from .tracebacks import authors_words  # imported here: most commands show no exception

        text = _marked(authors_words(ei[1], variables=self._variables))
        last, times = self._shown
        self._shown = (text, times + 1 if text == last else 1)
        return _marked("again, as above") if self._brief and self._shown[1] > 2 else text

    def formatStack(self, stack_info: str) -> str:
        return _marked(super().formatStack(stack_info))


def _marked(text: str) -> str:
    return "\n".join(f"  | {harmless(line)}" for line in text.split("\n"))


def set_up_logging(
    stream: TextIO | None = None,
    *,
    debug: bool = False,
    level: int = logging.INFO,
    access: bool = False,
    variables: bool = False,
    brief: bool = False,
    form: str = "plain",
) -> None:
    """Log to `stream`, by default stderr, in one format.

    Args:
        form: ``plain``, for people, or ``json``, for programs.
        debug: show log records of level DEBUG from triobot, too.
        level: lowest level shown.
        access: show a line for each request to the webhook, too.
        variables: show the variables of an author's frames with an error, too.
        brief: show the same traceback at most twice in a row.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    plain = PlainFormatter(variables=variables, whole=debug, brief=brief)
    handler.setFormatter(JsonFormatter() if form == "json" else plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("triobot").setLevel(logging.DEBUG if debug else level)
    # At INFO these loggers write whole addresses, and the webhook's address contains a secret.
    for name in ("httpx", "httpcore", "hypercorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # A log line per request is of little use, and takes a large share of the time of a short answer.
    logging.getLogger("triobot.webhook.access").setLevel(logging.INFO if access else logging.WARNING)


def drawn(share: float) -> str:
    """Draw a bar; `share` of the bar is full.

    Examples:
        >>> drawn(0.5)
        '[###############---------------] '
    """
    full = int(share * _WIDTH)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] "


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether `stream` is a terminal; None is a stream that was closed before this process started."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # the bot has replaced or closed the stream
        return False


def redraw(line: str) -> None:
    """Replace the last line on stderr; do nothing if stderr is no terminal."""
    if is_terminal(sys.stderr):
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def progress_line(key: str, status: BroadcastStatus, *, bar: bool = True) -> str:
    """Format a broadcast's progress; omit the bar if the output is no terminal.

    Examples:
        >>> progress_line("news", BroadcastStatus("sending", 200, sent=90, gone=10), bar=False)
        'news: sending, 100 of 200 (50 %), 90 sent, 10 gone, 0 failed, 0 unknown'
    """
    if status.state == "none":
        return f"{harmless(key)}: never started"
    behind = status.total - status.left
    share = behind / status.total if status.total else float(status.over)
    line = drawn(share) if bar else ""
    return (
        f"{harmless(key)}: {line}{status.state}, {behind:,} of {status.total:,} ({int(share * 100)} %),"
        f" {status.sent:,} sent, {status.gone:,} gone, {status.failed:,} failed, {status.unknown:,} unknown"
    )


async def until_signal(work: Callable[[], Awaitable[None]]) -> bool:
    """Run `work` to its end, or cancel it at SIGINT, SIGTERM or SIGHUP. A second signal ends the process.

    Returns: whether a signal cancelled `work`.
    """
    interrupted = False
    with hearing_signals(2) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal interrupted
                await anext(signals)
                interrupted = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await work()
            nursery.cancel_scope.cancel()
    return interrupted


def report(error: BaseException, *, debug: bool) -> int:
    """Print the error on stderr; return the exit code."""
    if isinstance(error, SystemExit):  # raised by triobot itself: a bot's SystemExit would be in a group
        return _asked_for(error)
    causes = list(leaves(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return INTERRUPTED
    if debug:
        traceback.print_exception(error)
    elif all(isinstance(cause, BrokenPipeError) for cause in causes):
        # The reader of the output has closed the pipe. The interpreter's last flush must not raise an error.
        sys.stdout = None
        return FAILED
    # Print each line once: many tasks may fail for one reason.
    for line in dict.fromkeys(one_line(cause) for cause in causes):
        print(f"triobot: {line}", file=sys.stderr)
    return FAILED


def one_line(error: BaseException) -> str:
    """Format an error as one line for a person."""
    before = about_opening(error)
    if isinstance(error, TriobotError) and not isinstance(error, ExitError):
        return harmless(before + (str(error) or type(error).__name__))
    if isinstance(error, OSError) and error.strerror:
        return harmless(before + (error.strerror if before else _of_system(error)))
    return harmless(f"{before}stopped by {kind_of(error)}{_place(error)}; --debug shows where it came from")


def _of_system(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        # asyncio, trio and hypercorn put the address into the text in different formats, or omit it.
        return "the port is in use already; choose another one with --port, or end what listens there"
    if error.errno == errno.EACCES and error.filename is None:
        return "listening there is not permitted; choose a port above 1023, or let systemd give the socket"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _asked_for(error: SystemExit) -> int:
    if isinstance(error.code, str):
        print(harmless(error.code), file=sys.stderr)
        return FAILED
    return error.code or 0

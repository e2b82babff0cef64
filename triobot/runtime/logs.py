"""Log lines for programs: one JSON object each, with bot and conversation, without users' texts.

Loggers are named by module, as usual. A line's bot and conversation are found when the line is written, so a
line that isn't written costs nothing. If the current task belongs to a conversation, the line belongs to this
conversation and its bot. Otherwise, the line belongs to the bot in the task's context, which is usually the
bot that started the task.

A chat is named by a digest with a key from the store. All lines of a bot use the same digest, and readers of
the log can't compute the chat's number. In messages, ``chat 1001`` and the number of the current chat are
replaced by the digest, and each token and secret of a bot by ``***``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Final, TypeAlias, TypeVar, cast, final

import trio

from ..base.authors import contained, kind_of
from ..base.frozen import guarded
from ..wire.ids import ChatId

KEY: Final = "log_key"
"""Name of the setting with a store's key for digests."""

_SHORT: Final = 5
"""Minimum number of digits of a bare number that is replaced. A shorter number is replaced only after a word
such as "chat".
"""
_NAMED: Final = re.compile(r"\b(chat|person|room) (-?[0-9]+)")
_MOST_CAUSES: Final = 10


NAMES: Final = (
    "triobot",
    "triobot.alarms",
    "triobot.conversations",
    "triobot.development",
    "triobot.http",
    "triobot.hypercorn",
    "triobot.inspect",
    "triobot.operator",
    "triobot.outbox",
    "triobot.store",
    "triobot.watchdog",
    "triobot.webhook",
    "triobot.webhook.access",
)
"""triobot's loggers."""
_BELOW: Final = ("trio.abc.Instrument", "trio.async_generator_errors", "trio.serve_listeners", "psycopg")
"""Loggers of libraries. Without `GuardedLogger`, an exception of a library's log handler would end
`trio.run`, or a transaction of the store.
"""
_warned: Final[set[tuple[str, int]]] = set()


def open_logs() -> None:
    """Enable the loggers of triobot and of some libraries, and catch the exceptions of these loggers'
    handlers.

    Call `open_logs` after importing the author's module, since `logging.config` disables all existing
    loggers. The loggers ignore later attempts to disable them, for example from a resource.
    """
    for name in (*NAMES, *_BELOW):
        logger = logging.getLogger(name)
        logger.disabled = False
        if not isinstance(logger, GuardedLogger):
            # Change the logger in place: modules have references to the logger. Keep the logger's class as a
            # base, because the author may have set this class.
            logger.__class__ = type("GuardedLogger", (GuardedLogger, type(logger)), {})


class GuardedLogger(logging.Logger):
    """A logger that catches the exceptions of an author's log filters, handlers, formatters and records."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "disabled":
            super().__setattr__(name, value)

    def _log(
        self,
        level: int,
        msg: object,
        args: tuple[object, ...] | Mapping[str, object],
        exc_info: bool | BaseException | ExcInfo | None = None,
        extra: Mapping[str, object] | None = None,
        stack_info: bool = False,  # the base class's signature
        stacklevel: int = 1,
    ) -> None:
        try:
            # One level more than the caller's `stacklevel`, for this method's frame.
            super()._log(level, msg, args, exc_info, extra, stack_info, stacklevel + 1)
        except BaseException as error:
            _tell(error)

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Call each handler, even if another handler raises."""
        logger: logging.Logger | None = self
        handlers: list[logging.Handler] = []
        while logger is not None:
            handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        if not handlers and logging.lastResort is not None:
            handlers = [logging.lastResort]
        for handler in handlers:
            if record.levelno >= handler.level:
                try:
                    handler.handle(record)
                except BaseException as error:
                    _tell(error)


def _tell(error: BaseException) -> None:
    """Print to stderr which line made a log handler fail; each line once."""
    kind = kind_of(contained(error))
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    ours = (__file__, logging.__file__)
    place = next((frame for frame in frames if frame[0] not in ours), frames[-1])
    if place in _warned:
        return
    _warned.add(place)
    with suppress(Exception):  # stderr may be closed
        text = f"triobot: a log handler failed with {kind} at {place[0]}:{place[1]}: its lines are lost"
        sys.stderr.write(f"{text}\n")


@final
@guarded
class Whose:
    """The conversation that writes a log line.

    Attributes:
        conversation: number of the conversation, as for ``triobot journal``.
        operation: id of the operation that the task performs; None between two operations.
        place: the conversation's chat or room.
        name: name of the place in messages, such as ``chat 1001``.
    """

    conversation: int
    route: str
    operation: str | None
    place: ChatId
    name: str


T = TypeVar("T")
ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
Find: TypeAlias = Callable[[trio.lowlevel.Task], Whose | None]


@final
class Speaker:
    """A bot's identity in log lines.

    Args:
        name: the bot's name.
        key: the store's key for digests.
        cover: replaces the bot's secrets in a text.

    Attributes:
        find: finds a task's conversation; None while the bot doesn't work.
    """

    def __init__(self, name: str, key: str, cover: Callable[[str], str]) -> None:
        self.name = name
        self._key = key.encode()
        self._cover = cover
        self.find: Find | None = None

    def digest(self, what: str | int) -> str:
        """Return the digest that replaces a number or name in a log line."""
        # The digest starts with a letter, so that it never looks like a number.
        return f"h{hashlib.blake2b(str(what).encode(), key=self._key, digest_size=8).hexdigest()}"

    def begin(self) -> None:
        """Attribute further log lines of this task, and of tasks that this task starts, to this bot."""
        _speaks.set(self)

    def whose(self, task: trio.lowlevel.Task) -> Whose | None:
        """Return the conversation that the task, or a parent of the task, belongs to."""
        return None if self.find is None else self.find(task)

    def cleared(self, text: str, whose: Whose | None) -> str:
        """Return a text without secrets, numbers of chats, and keys of rooms."""
        text = self._cover(text)
        if whose is not None:
            number = str(whose.place)
            text = text.replace(whose.name, f"{whose.name.partition(' ')[0]} {self.digest(number)}")
            if len(number) >= _SHORT:
                text = re.sub(rf"(?<![0-9]){re.escape(number)}(?![0-9])", self.digest(number), text)
        return _NAMED.sub(lambda found: f"{found[1]} {self.digest(found[2])}", text)


_speaks: Final[ContextVar[Speaker | None]] = ContextVar("speaks", default=None)
_voices: Final[list[Speaker]] = []
_expected: Final[list[str]] = []


def new_key() -> str:
    return secrets.token_hex(16)


@contextmanager
def _listed(among: list[T], one: T) -> Generator[None]:
    among.append(one)
    try:
        yield
    finally:
        among.remove(one)


registered: Final = partial(_listed, _voices)
"""Context manager that registers a bot's `Speaker`. If only one bot is registered, lines of an unknown bot
belong to this bot.
"""
expected: Final = partial(_listed, _expected)
"""Context manager for the name of a bot that is about to start. Until the bot has started, lines are
attributed to this name."""


@contextmanager
def speaking(voice: Speaker | None) -> Generator[None]:
    """Attribute log lines of the block, and of tasks started in the block, to a bot. None: to no bot."""
    before = _speaks.get()
    _speaks.set(voice)
    try:
        yield
    finally:
        # Reset without a context token: a generator may be resumed in another context, where a token is
        # invalid.
        _speaks.set(before)


def _speaker() -> tuple[Speaker | None, Whose | None]:
    """Return the bot and the conversation of the running code, as far as known."""
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:  # in another thread, or outside `trio.run`
        task = None
    if task is not None:
        for voice in _voices:
            if (whose := voice.whose(task)) is not None:
                return voice, whose
    only = _voices[0] if len(_voices) == 1 else None
    return _speaks.get() or only, None


@final
class JsonFormatter(logging.Formatter):
    """Formats a log record as one JSON object.

    Each object has the fields ``time``, ``level``, ``logger`` and ``message``. The fields ``conversation``,
    ``route``, ``operation`` and ``chat`` are null if unknown. A line that belongs to a bot has the field
    ``bot``. A log record with a stack adds the field ``stack``. A log record with an exception adds the field
    ``exception``: the exception's type, its frames (outermost first) and its causes. An exception's text and
    variables are omitted, since both may contain users' messages.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line end."""
        voice, whose = _speaker()
        text = record.getMessage()
        # If the line's bot is unknown, remove the secrets of all bots.
        for one in [voice] if voice is not None else _voices:
            text = one.cleared(text, whose)
        entry: dict[str, object] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": text,
            **_named_bot(voice),
            "conversation": None if whose is None else whose.conversation,
            "route": None if whose is None else whose.route,
            "operation": None if whose is None else whose.operation,
            "chat": None if voice is None or whose is None else voice.digest(whose.place),
        }
        error = None if record.exc_info is None else record.exc_info[1]
        if error is not None:
            entry["exception"] = structured(error)
        if record.stack_info:
            places = (line.strip() for line in record.stack_info.splitlines())
            entry["stack"] = [line for line in places if line.startswith("File ")]  # without the source lines
        return json.dumps(entry, separators=(",", ":"))


def _named_bot(voice: Speaker | None) -> dict[str, str]:
    if voice is not None:
        return {"bot": voice.name}
    return {"bot": _expected[0]} if not _voices and len(_expected) == 1 else {}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def structured(error: BaseException, depth: int = 0) -> dict[str, object]:
    """Return an exception's type, frames and causes as JSON values, without its text."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    entry: dict[str, object] = {
        "type": f"{module}{kind.__qualname__}",
        "frames": [
            {"file": frame.filename, "line": frame.lineno, "function": frame.name}
            for frame in traceback.extract_tb(error.__traceback__)
        ],
    }
    if depth >= _MOST_CAUSES:
        return entry
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        entry["exceptions"] = [structured(one, depth + 1) for one in inner]
    cause = (
        error.__context__ if error.__cause__ is None and not error.__suppress_context__ else error.__cause__
    )
    if cause is not None:
        entry["cause"] = structured(cause, depth + 1)
    return entry

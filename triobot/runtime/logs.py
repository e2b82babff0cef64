"""Log lines for programs: one JSON object each, which says whose it is and nothing of what people wrote.

Loggers are the modules', as everywhere. Whose a line is, is found when it is written: the conversation by the
task that writes it, the bot by that conversation, else by the context in which the bot began the task. So a
line that isn't written costs nothing.

A chat is named by a digest with a key of the store's own: the same in each line of one bot, and nobody who
reads the log can tell from which number it was made. What our own lines call ``chat 1001``, and the number of
the chat at work, become it too; so does each token and secret of a bot become ``***``.
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
"""The setting in which a store keeps the key of its digests."""

_SHORT: Final = 5
"""A number of fewer digits may be anything: only with its word before it is it taken for a chat's."""
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
"""Our loggers."""
_BELOW: Final = ("trio.abc.Instrument", "trio.async_generator_errors", "trio.serve_listeners", "psycopg")
"""Those of what we run on: what a handler raises there would end the run, or a store's transaction."""
_told: Final[set[tuple[str, int]]] = set()


def open_logs() -> None:
    """Have all that we log reach the author's handlers, and nothing that those raise reach us.

    Call this behind the author's module: `logging.config` disables each logger that was there before. What
    it disables later, from a resource, stays enabled.
    """
    for name in (*NAMES, *_BELOW):
        logger = logging.getLogger(name)
        logger.disabled = False
        if not isinstance(logger, GuardedLogger):
            # The logger itself: modules have it already. The author may have set a class of loggers.
            logger.__class__ = type("GuardedLogger", (GuardedLogger, type(logger)), {})


class GuardedLogger(logging.Logger):
    """A logger whose filters, handlers, formatters and records are an author's code: each fails alone."""

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
        stack_info: bool = False,  # as the base class has it
        stacklevel: int = 1,
    ) -> None:
        try:
            # One level more, for this frame.
            super()._log(level, msg, args, exc_info, extra, stack_info, stacklevel + 1)
        except BaseException as error:
            _tell(error)

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Let each handler have a record, whatever the others raise."""
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
    """Tell once of each line of an author's that keeps something out of the log."""
    kind = kind_of(contained(error))
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    ours = (__file__, logging.__file__)
    place = next((frame for frame in frames if frame[0] not in ours), frames[-1])
    if place in _told:
        return
    _told.add(place)
    with suppress(Exception):  # whoever reads it may be gone
        text = f"triobot: a log handler failed with {kind} at {place[0]}:{place[1]}: its lines are lost"
        sys.stderr.write(f"{text}\n")


@final
@guarded
class Whose:
    """The conversation whose code writes a line.

    Attributes:
        conversation: its number, as ``triobot journal`` takes it.
        operation: the id of the operation in which the task is; None between two.
        place: its chat or room.
        told: what that is called in messages.
    """

    conversation: int
    route: str
    operation: str | None
    place: ChatId
    told: str


T = TypeVar("T")
ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
Find: TypeAlias = Callable[[trio.lowlevel.Task], Whose | None]


@final
class Speaker:
    """A bot, as its log lines name it.

    Args:
        name: of the bot.
        key: the store's own.
        cover: takes out of a text what must be in no line.

    Attributes:
        find: whose task one is; None while the bot doesn't work.
    """

    def __init__(self, name: str, key: str, cover: Callable[[str], str]) -> None:
        self.name = name
        self._key = key.encode()
        self._cover = cover
        self.find: Find | None = None

    def digest(self, what: str | int) -> str:
        """Return what stands for this in a line."""
        # A letter first: no number, whatever its digits are.
        return f"h{hashlib.blake2b(str(what).encode(), key=self._key, digest_size=8).hexdigest()}"

    def begin(self) -> None:
        """Let what the current task does from here on, and the tasks that it begins, be this bot's."""
        _speaks.set(self)

    def whose(self, task: trio.lowlevel.Task) -> Whose | None:
        """Return the conversation whose task this is, or is above it."""
        return None if self.find is None else self.find(task)

    def cleared(self, text: str, whose: Whose | None) -> str:
        """Return a text without secrets, numbers of chats, and keys of rooms."""
        text = self._cover(text)
        if whose is not None:
            number = str(whose.place)
            text = text.replace(whose.told, f"{whose.told.partition(' ')[0]} {self.digest(number)}")
            if len(number) >= _SHORT:
                text = re.sub(rf"(?<![0-9]){re.escape(number)}(?![0-9])", self.digest(number), text)
        return _NAMED.sub(lambda found: f"{found[1]} {self.digest(found[2])}", text)


_speaks: Final[ContextVar[Speaker | None]] = ContextVar("speaks", default=None)
_voices: Final[list[Speaker]] = []
_expected: Final[list[str]] = []


def new_key() -> str:
    """Return a key for a store's digests."""
    return secrets.token_hex(16)


@contextmanager
def _listed(among: list[T], one: T) -> Generator[None]:
    among.append(one)
    try:
        yield
    finally:
        among.remove(one)


registered: Final = partial(_listed, _voices)
"""Lets lines be this bot's while the block runs, if they are nobody else's."""
expected: Final = partial(_listed, _expected)
"""Lets lines be this bot's by name while the block runs, as long as no bot has begun."""


@contextmanager
def speaking(voice: Speaker | None) -> Generator[None]:
    """Let what the block does, and the tasks that it begins, be this bot's."""
    before = _speaks.get()
    _speaks.set(voice)
    try:
        yield
    finally:
        # Not by a token: a generator may be resumed in a context that has never seen it.
        _speaks.set(before)


def _speaker() -> tuple[Speaker | None, Whose | None]:
    """Return the bot whose code runs now, and the conversation, as far as that can be known."""
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:  # a thread's, or before or after the run
        task = None
    if task is not None:
        for voice in _voices:
            if (whose := voice.whose(task)) is not None:
                return voice, whose
    only = _voices[0] if len(_voices) == 1 else None
    return _speaks.get() or only, None


@final
class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object.

    ``time``, ``level``, ``logger``, ``message``; ``bot``, unless the line is no bot's; ``conversation``,
    ``route``, ``operation`` and ``chat`` as far as they are known, else null; and ``exception`` if there is
    one: its type, the frames from the outermost on, its causes. No text of an exception and no variable,
    which may hold what people wrote.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        voice, whose = _speaker()
        text = record.getMessage()
        # Of a line that is nobody's the chats can't be told; what must be in none is in none.
        for one in [voice] if voice is not None else _voices:
            text = one.cleared(text, whose)
        told: dict[str, object] = {
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
            told["exception"] = structured(error)
        if record.stack_info:
            places = (line.strip() for line in record.stack_info.splitlines())
            told["stack"] = [line for line in places if line.startswith("File ")]  # without the source
        return json.dumps(told, separators=(",", ":"))


def _named_bot(voice: Speaker | None) -> dict[str, str]:
    if voice is not None:
        return {"bot": voice.name}
    return {"bot": _expected[0]} if not _voices and len(_expected) == 1 else {}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def structured(error: BaseException, depth: int = 0) -> dict[str, object]:
    """Return an exception's type, frames and causes, as JSON can hold them, and nothing of what it says."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    told: dict[str, object] = {
        "type": f"{module}{kind.__qualname__}",
        "frames": [
            {"file": frame.filename, "line": frame.lineno, "function": frame.name}
            for frame in traceback.extract_tb(error.__traceback__)
        ],
    }
    if depth >= _MOST_CAUSES:
        return told
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        told["exceptions"] = [structured(one, depth + 1) for one in inner]
    cause = (
        error.__context__ if error.__cause__ is None and not error.__suppress_context__ else error.__cause__
    )
    if cause is not None:
        told["cause"] = structured(cause, depth + 1)
    return told

"""What a developer is told while developing: habits that work today and hurt later.

On by the setting `development`; each habit is told once for each line of the author's code, as a warning of
the logger ``triobot.development``. Nothing here changes what a conversation does.
"""

from __future__ import annotations

import datetime as dt
import difflib
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, cast, final

import attrs
import trio

from ..engine import Run
from ..errors import UnrecordableError
from ..values import encode_value
from ..wire.events import Event, Message, Press
from ..wire.ids import RefId
from .routes.declarations import Route
from .routes.typed import read_command
from .running.branches import code_tasks, step_tasks
from .running.leash import held
from .running.lines import calling_line, frames_of, is_authors

log: Final = logging.getLogger("triobot.development")

LONG_SLEEP: Final = 5 * 60.0
"""Seconds above which a sleeping conversation is called deaf."""
MANY: Final = 1_000
"""Operations of one conversation, after which its recorded past is called long."""
_SHOWN: Final = 60
_CHECKPOINTS: Final = frozenset({"checkpoint", "checkpoint_if_cancelled", "cancel_shielded_checkpoint"})

_OURS: Final = str(Path(__file__).parent.parent) + os.sep
# Where a route's function is awaited, and a child's.
_ENTRIES: Final = frozenset({Run.run_within.__code__, held.__code__})


@final
@attrs.frozen
class Gift:
    """What an aside has done for a payment, at a line of the author's, with these values."""

    line: str
    args: frozenset[str] = attrs.field(repr=False)


@final
@attrs.frozen
class Copy:
    """A value that was read from ``chat.data`` and can be changed in place."""

    key: str
    value: object = attrs.field(repr=False)
    text: str = attrs.field(repr=False)
    line: str


def _came(event: Event, said: str) -> str:
    if said:
        return repr(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}...")
    kind = event.content if isinstance(event, Message) else event
    value = f" of {event.value!r}" if isinstance(event, Press) else ""
    return f"a {type(kind).__name__.lower()}{value}"


def copied(key: str, value: object) -> Copy | None:
    """Return what to remember of a value that was read, if it can be changed in place."""
    mutable = type(value) in (list, dict, set)
    return Copy(key, value, encode_value(value), calling_line()) if mutable else None


def added(before: object, after: object) -> Sequence[object]:
    """Return what is added to a value by putting another in its place; nothing if that can't be told."""
    match before, after:
        case int() | float(), int() | float():
            return (after - before,)
        case list(), list():
            return cast("list[object]", after)[len(cast("list[object]", before)) :]
        case _:
            return (after,) if isinstance(after, str | dt.datetime) else ()


def is_changed(copy: Copy) -> bool:
    """Return whether a copy is no longer what was read."""
    try:
        return encode_value(copy.value) != copy.text
    except UnrecordableError:
        return True


@final
class Advice(trio.abc.Instrument):
    """Tells each habit once a line."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()
        # What an aside gave for a payment and where, until its charge returns.
        self.given: dict[RefId, Mapping[str, Gift]] = {}

    def cannot_work(self, line: str, what: str, wrong: str) -> None:
        """Warn of a line that was found in the source of a route."""
        self._tell(what, line, f"{what} {wrong}")

    def sleeps(self, seconds: float) -> None:
        """Warn of a long sleep in a live conversation, whose chat is deaf meanwhile."""
        if seconds > LONG_SLEEP:
            self._tell(
                "deaf",
                calling_line(),
                "the live conversation sleeps for long, and its chat is deaf meanwhile: sleep in an aside, "
                "or inside chat.move_on_when()",
            )

    def keyless(self, line: str) -> None:
        """Warn of an aside that gave what was paid for by steps, none of which got the payment's key."""
        self._tell(
            "keyless",
            line,
            "no step of this aside gets the key of the payment for which it gives: a step that was cut by a "
            "crash or has failed runs again, and another service can't tell that from a second sale. Hand it "
            "chat.event.key",
        )

    def declined(self, line: str, hook: str, route: str) -> None:
        """Warn of a hook that neither ran what is within it nor did anything else."""
        self._tell(
            "declined",
            line,
            f"hook {hook} ended without call(): {route} did not run; did it forget await call()?",
        )

    def untaken(
        self, event: Event, routes: Sequence[Route], username: str | None, begun: tuple[Route, Route] | None
    ) -> None:
        """Tell what came that no route takes, which filters were asked, and which is the nearest.

        Args:
            username: the bot's own.
            begun: the route that the event would have begun, and the live one that is in the way.
        """
        said = event.content if isinstance(event, Message) and isinstance(event.content, str) else ""
        what = _came(event, said)
        asked = dict.fromkeys(one.filter.name for one in routes)
        by_word = {word: one.filter.name for one in routes for word in one.filter.words}
        hint = ""
        if (typed := read_command(said)) is not None and "@" in typed[0]:
            own = f"is {username}" if username else "is not set, see TRIOBOT_USERNAME"
            hint = f"/{typed[0]} is for the bot of that name, and this one's {own}; "
        elif near := difflib.get_close_matches(said.split("@")[0], by_word, n=1):
            asked.pop(by_word[near[0]])
            hint = f"nearest is {by_word[near[0]]}; "
        sender = (
            "" if event.sender is None else f"{event.sender.name}, sender {event.sender.id}, ".lstrip(" ,")
        )
        others = f"{'also ' if 'nearest' in hint else ''}asked: {', '.join(asked) or 'no other route'}"
        if begun is not None:
            late, live = begun[0].name, begun[1].name
            hint = (
                f"{begun[0].filter.name} begins {late}, which can't begin while {live} is live in the chat: "
            )
            others = f"make {late} an aside or an interrupt, or let {live} receive it"
        log.warning("nobody took %s (%schat %s): %s%s", what, sender, event.chat_id, hint, others)

    def unheard(self, event: object, room: tuple[str, str] | None, begins: Sequence[str]) -> None:
        """Tell of a signal that has come to a room which doesn't run, and that doesn't begin it.

        Args:
            room: the room's name and key; None for the bot's own.
            begins: what begins it.
        """
        what = type(getattr(event, "value", event)).__name__
        name = "the bot's own room" if room is None else f"room {room[0]}, key {room[1]!r}"
        asked = f"only {begins[0]} begins it" if begins else "nothing begins there"
        log.warning("a signal %s to %s was dropped: it doesn't run, and %s", what, name, asked)

    def known_key(self, line: str, route: str, key: str | None) -> None:
        """Tell of a start whose key is known, though nothing that was started with it runs any more."""
        log.warning(
            "%s: no %s was started: one was with the key %r, and has ended; a key is known for seven days: "
            "give each start its own",
            line,
            route,
            key,
        )

    def operated(self, count: int) -> None:
        """Warn of a long conversation, once it has begun this many operations."""
        if count == MANY:
            self._tell(
                "long",
                calling_line(),
                f"over {MANY:,} operations in one conversation, all of which a restart replays: end it, or "
                "go on with chat.continue_as()",
            )

    def unassigned(self, copy: Copy) -> None:
        """Warn of a copy that was changed, and never assigned."""
        self._tell(
            "copy",
            copy.line,
            f"the value of {copy.key!r} was changed after it was read from chat.data, which gives copies: "
            "assign it back, chat.data[KEY] = value",
        )

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Warn of what a task has come to wait for, if a conversation's code waits for no chat operation."""
        own = task in code_tasks and task not in step_tasks
        if own and (line := foreign_line(frames_of(task))) is not None:
            self._tell(
                "blocked",
                line,
                "a conversation waits for something that is not a chat operation; no restart knows of it: "
                "use chat.step(), chat.sleep(), or the chat's own methods",
            )

    @contextmanager
    def watching(self) -> Generator[None]:
        """Look at what tasks wait for while the block runs; no timer is needed for it."""
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)

    def _tell(self, habit: str, line: str, words: str) -> None:
        if (habit, line) not in self._told:
            self._told.add((habit, line))
            log.warning("%s: %s", line, words)


def foreign_line(frames: Sequence[tuple[FrameType, int]]) -> str | None:
    """Return the author's line that waits for what is no chat operation; None for one that is.

    The frames are ours down to where the author's function is awaited; a chat operation is ours again.
    """
    files = [(frame.f_code.co_filename, number) for frame, number in frames]
    entry = next((place for place, (file, _) in enumerate(files) if not file.startswith(_OURS)), 0)
    if not entry or frames[entry - 1][0].f_code not in _ENTRIES:
        return None
    if any(file.startswith(_OURS) for file, _ in files[entry:]):
        return None
    if any(frame.f_code.co_name in _CHECKPOINTS for frame, _ in frames):
        return None  # it waits for nothing
    own = [(file, number) for file, number in files[entry:] if is_authors(file)]
    file, number = own[-1] if own else files[entry]
    return f"{file}:{number}"

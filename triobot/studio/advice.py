"""Warnings for developers about code that works in development, but causes trouble in production.

The setting `development` turns the warnings on. The logger ``triobot.development`` logs each warning once for
each line of the author's code. The warnings never change a conversation's behaviour.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, assert_never, final

import trio

from ..conversations.chat import Chat, ChatRef
from ..conversations.inspection.replay_state import called_frames
from ..conversations.notices import (
    Keyless,
    KnownKey,
    Notice,
    Notify,
    Operated,
    Refused,
    Slept,
    Unassigned,
    Unheard,
    Untaken,
)
from ..conversations.routes.declarations import Table
from ..conversations.routes.typed import read_command
from ..conversations.running.branches import code_tasks, step_tasks
from ..conversations.running.lines import calling_line, frames_of, is_authors, is_ours
from ..wire.events import Event, Message, Press
from .habits import habits

log: Final = logging.getLogger("triobot.development")

LONG_SLEEP: Final = 5 * 60.0
"""Seconds that a live conversation may sleep without a warning."""
MANY: Final = 1_000
"""Number of operations in a conversation at which the warning about its long journal is logged."""
_SHOWN: Final = 60
_CHECKPOINTS: Final = frozenset({"checkpoint", "checkpoint_if_cancelled", "cancel_shielded_checkpoint"})


def _came(event: Event, said: str) -> str:
    if said:
        return repr(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}...")
    kind = event.content if isinstance(event, Message) else event
    value = f" of {event.value!r}" if isinstance(event, Press) else ""
    return f"a {type(kind).__name__.lower()}{value}"


@contextmanager
def advising(table: Table) -> Generator[Notify]:
    """Check the source of the routes' functions, then watch the running tasks until the block ends.

    Yields the function that receives the dispatcher's notices.
    """
    advice = Advice()
    for line, what, wrong in habits(table.functions, Chat, ChatRef):
        advice.tell(what, line, f"{what} {wrong}")
    trio.lowlevel.add_instrument(advice)
    try:
        yield advice.hear
    finally:
        trio.lowlevel.remove_instrument(advice)


@final
class Advice(trio.abc.Instrument):
    """Logs each warning once for each line of the author's code."""

    def __init__(self) -> None:
        self._shown_habits: set[tuple[str, str]] = set()

    def hear(self, notice: Notice) -> None:
        """Log a warning if the dispatcher's notice hints at a mistake, such as a dropped signal."""
        match notice:
            case Untaken():
                log.warning("%s", _untaken(notice))
            case Unheard(event, room, begins):
                # A signal was dropped: its room has no conversation.
                what = type(getattr(event, "value", event)).__name__
                name = "the bot's own room" if room is None else f"room {room[0]}, key {room[1]!r}"
                asked = f"only {begins[0]} begins it" if begins else "nothing begins there"
                log.warning("a signal %s to %s was dropped: it doesn't run, and %s", what, name, asked)
            case KnownKey(route, key):
                log.warning(
                    "%s: no %s was started: one was with the key %r, and has ended; a key is known for as "
                    "many days as retention_days says, seven by default: give each start its own",
                    calling_line(),
                    route,
                    key,
                )
            case Slept(seconds):
                if seconds > LONG_SLEEP:
                    self.tell(
                        "deaf",
                        calling_line(),
                        "the live conversation sleeps for long, and its chat is deaf meanwhile: sleep in an "
                        "aside, or inside chat.move_on_when()",
                    )
            case Operated(count):
                if count == MANY:
                    self.tell(
                        "long",
                        calling_line(),
                        f"over {MANY:,} operations in one conversation, all of which a restart replays: end "
                        "it, or go on with chat.continue_as()",
                    )
            case Unassigned(copy):
                self.tell(
                    "copy",
                    copy.line,
                    f"the value of {copy.key!r} was changed after it was read from chat.data, which gives "
                    "copies: assign it back, chat.data[KEY] = value",
                )
            case Keyless(line):
                self.tell(
                    "keyless",
                    line,
                    "no step of this aside gets the key of the payment for which it gives: a step that was "
                    "cut by a crash or has failed runs again, and another service can't tell that from a "
                    "second sale. Hand it chat.event.key",
                )
            case Refused(route, chat_id):
                log.warning(
                    "%s ended: the platform refuses what it sends to chat %s. Its person has left, or that "
                    "is a person's number (event.sender.id) and not a chat's (chat.id)",
                    route,
                    chat_id,
                )
            case _:
                assert_never(notice)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Log a warning if a conversation's own task waits for anything but a chat operation."""
        own = task in code_tasks and task not in step_tasks
        if own and (line := foreign_line(frames_of(task))) is not None:
            self.tell(
                "blocked",
                line,
                "a conversation waits for something that is not a chat operation; no restart knows of it: "
                "use chat.step(), chat.sleep(), or the chat's own methods",
            )

    def tell(self, habit: str, line: str, words: str) -> None:
        """Log a warning, unless the same warning was logged for this line before."""
        if (habit, line) not in self._shown_habits:
            self._shown_habits.add((habit, line))
            log.warning("%s: %s", line, words)


def _untaken(notice: Untaken) -> str:
    """Return the warning about an event that no route took, with the tried filters and the nearest filter."""
    event = notice.event
    said = event.content if isinstance(event, Message) and isinstance(event.content, str) else ""
    what = _came(event, said)
    asked = dict.fromkeys(one.filter.name for one in notice.routes)
    by_word = {word: one.filter.name for one in notice.routes for word in one.filter.words}
    hint = ""
    if (typed := read_command(said)) is not None and "@" in typed[0]:
        own = f"is {notice.username}" if notice.username else "is not set, see TRIOBOT_USERNAME"
        hint = f"/{typed[0]} is for the bot of that name, and this one's {own}; "
    elif near := difflib.get_close_matches(said.split("@")[0], by_word, n=1):
        asked.pop(by_word[near[0]])
        hint = f"nearest is {by_word[near[0]]}; "
    sender = "" if event.sender is None else f"{event.sender.name}, sender {event.sender.id}, ".lstrip(" ,")
    others = f"{'also ' if 'nearest' in hint else ''}asked: {', '.join(asked) or 'no other route'}"
    if notice.begun is not None:
        begun, live = notice.begun
        late = f"{begun.name}, which can't begin while {live.name} is live in the chat"
        hint = f"{begun.filter.name} begins {late}: "
        others = f"make {begun.name} an aside or an interrupt, or let {live.name} receive it"
    return f"nobody took {what} ({sender}chat {event.chat_id}): {hint}{others}"


def foreign_line(frames: Sequence[tuple[FrameType, int]]) -> str | None:
    """Return the author's line that waits for something other than a chat operation, or None.

    If the author's frames have called frames of triobot, the task waits for a chat operation.
    """
    rest = [(frame.f_code.co_filename, number) for frame, number in called_frames(frames)]
    if not rest or any(is_ours(file) for file, _ in rest):
        return None
    if any(frame.f_code.co_name in _CHECKPOINTS for frame, _ in frames):
        return None  # a checkpoint doesn't wait
    own = [(file, number) for file, number in rest if is_authors(file)]
    file, number = own[-1] if own else rest[0]
    return f"{file}:{number}"

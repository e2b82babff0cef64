"""Failed conversations: logs, alarms, and messages to users.

An author's error ends its own conversation and nothing else. Logs name the conversation, the chat and the
author's line. An error's text may quote a user, so logs contain such a text only if tracebacks are enabled.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from ...base.alarm_kinds import Alarm
from ...base.authors import all_of, kind_of, leaves, text_of
from ...engine import Run
from ...errors import (
    ConfigError,
    ConversationEndedError,
    DeliveryUnknownError,
    ForeignTaskError,
    LocalProtocolError,
    NondeterminismError,
    PaymentDeclinedError,
    PaymentExpiredError,
    PaymentHandedOverError,
    RecordError,
    StepError,
)
from ...seams.money import PaymentGoods
from ...seams.rooms import is_chat, place_name
from ...wire.ids import ChatId
from ...wire.operations import Operation
from ..services import Services
from ..texts import Texts
from .lines import LIBRARIES, failing_line

log: Final = logging.getLogger("triobot.conversations")
CRASHED: Final = "crashed"
_PACKAGE: Final = f"{__name__.partition('.')[0]}."
_LIVE: Final = "_triobot_happened"
GONE: Final = "gone"
HANDED_OVER: Final = "handed_over"
# Errors caused by the author's mistakes. Their texts contain no user's value.
_MISTAKES: Final = (LocalProtocolError, ConfigError, ConversationEndedError, ForeignTaskError, RecordError)

# Names of fields and functions in other frameworks, with triobot's names.
_FIELDS: Final = {
    **dict.fromkeys(("text", "caption", "message"), "content rest event"),
    **dict.fromkeys(("from_user", "user", "effective_user"), "sender"),
    **dict.fromkeys(("first_name", "full_name"), "name"),
    **dict.fromkeys(("answer", "reply", "reply_text", "send_message", "send_photo"), "chat.send"),
    **dict.fromkeys(("edit_text", "edit_reply_markup", "edit_message_text"), "chat.edit"),
    **dict.fromkeys(("user_data", "chat_data", "state"), "chat.data"),
    "delete_message": "chat.delete",
    "data": "value",
    "args": "rest",
    "chat": "chat_id",
}
_ARGUMENTS: Final = {
    "reply_markup": "called buttons=, or keyboard=",
    "text": "called content, and comes first,",
    "parse_mode": "left out, as texts have no formatting,",
    "timeout": "a block around it, with chat.move_on_after(seconds)",
}
_ASYNCIOS: Final = re.compile(r"no (?:running|current) event loop|unrecognized yield message")
_UNEXPECTED: Final = re.compile(r"\b(?:Chat|ChatRef)\.\w+\(\) got an unexpected keyword argument '(\w+)'")


class Ending(Enum):
    """Ending of a conversation."""

    NORMAL = "normal"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEFT = "left"
    STOPPED = "stopped"
    CONTINUED = "continued"


def parting(error: NondeterminismError, failure: Exception | None, line: str) -> str:
    """Describe the difference between code and journal, with the line and the code's error, if any."""
    words = str(error)
    if failure is not None and line == "?":
        first = next(iter(leaves(failure)))
        words += f"; now it failed with {kind_of(first)}"
        line = failing_line(first.__traceback__)
    return words if line == "?" else f"{words} ({line})"


def verdict(errors: Sequence[Exception], texts: Texts) -> tuple[str, str]:
    """Return the kind of a failure, and the message to the user."""
    # A sale may end with a decline, or without a press of the button. The ledger informs an operator where
    # necessary.
    unpaid = {
        "declined": (PaymentDeclinedError, texts.declined),
        "expired": (PaymentExpiredError, texts.expired),
        HANDED_OVER: (PaymentHandedOverError, texts.handed_over),
    }
    for kind, (cls, words) in unpaid.items():
        if all(isinstance(error, cls) for error in errors):
            return kind, words
    return CRASHED, texts.apology


def happened(failed: Exception, live: Exception) -> None:
    """Attach a step's original error to the error raised from the step, for `report`."""
    vars(failed)[_LIVE] = live


def _with_causes(error: BaseException | None) -> None:
    """Set each original error attached by `happened` as the cause of the step's error."""
    for one in () if error is None else all_of(error):
        live = vars(one).pop(_LIVE, None)
        if live is not None and one.__cause__ is None:
            object.__setattr__(one, "__cause__", live)  # the error's class may be frozen


def report(
    failure: Exception,
    services: Services,
    name: str,
    chat_id: ChatId,
    reference: str,
    *,
    place: str,
    gives: PaymentGoods | None,
    job: bool,
) -> None:
    """Log a conversation's failure, raise an alarm, and call the author's error handler.

    Args:
        place: name of the chat or room.
        gives: state of the payment, if the conversation is the aside for a payment; else None.
        job: whether the conversation is a job's run.
    """
    errors = list(leaves(failure))
    then = "users are told to start again" if is_chat(chat_id) else "the next signal may begin it again"
    if job:
        then = "it is not tried again; the next due time comes as ever"
    elif gives == "given":
        then = "what was paid for has been given"
    elif gives is not None:
        then = "what was paid for is given again, by the same code, with the same key"
    for error in errors:
        _with_causes(error)
        line = _line_of(error, failure)
        # Some of triobot's errors contain the line themselves.
        words = _words(error).replace(f" {line}:", "").replace(f" ({line})", "")
        failed = f"{kind_of(error)} at {line}{words}"
        who = f"{name} (reference {reference}) of {place}"
        log.error("conversation %s failed: %s", who, failed, exc_info=error if services.tracebacks else None)
        text = f"conversation {name} failed with {failed}; {then} (reference {reference})"
        services.raise_alarm(Alarm("job_failed" if job else "conversation_crashed", f"{name} {line}", text))
    services.on_failure(errors[0] if len(errors) == 1 else failure, name, chat_id, reference)


def put_away(failure: Exception, name: str, place: str, tracebacks: bool) -> None:
    """Log errors raised by the cleanup when a conversation left memory. The conversation continues later."""
    errors = [f"{kind_of(error)} at {_line_of(error, failure)}" for error in leaves(failure)]
    log.warning(
        "conversation %s of %s: cleanup raised while it was put away; it lives on: %s",
        name,
        place,
        ", ".join(errors),
        exc_info=failure if tracebacks else None,
    )


def _line_of(error: Exception, failure: Exception) -> str:
    """Return the line that raised an error; for an error without traceback, the line of the error's group."""
    line = failing_line(error.__traceback__)
    return failing_line(failure.__traceback__) if line == "?" else line


def lost_in_flight(operation: Operation[object]) -> DeliveryUnknownError:
    """Return the error for a send that may have happened before a crash, and must not be repeated."""
    return DeliveryUnknownError(operation.path, "the program ended while it was in flight")


def _words(error: Exception) -> str:
    """Return a text about an error for the log; the text quotes no user."""
    if isinstance(error, _MISTAKES):
        return f": {text_of(error)}"
    if isinstance(error, OSError) and type(error.errno) is int and error.errno in errno.errorcode:
        return f": {os.strerror(error.errno)}"  # without the file's name, which may be a user's text
    return _hint(error)


def _hint(error: Exception) -> str:
    """Return a hint if an error comes from another framework's name or from asyncio; else an empty text."""
    text = text_of(error)
    if _ASYNCIOS.search(text) is not None and issubclass(type(error), RuntimeError | TypeError | StepError):
        return f": asyncio's code doesn't run on Trio as it is; {LIBRARIES} has the ways"
    if type(error) is AttributeError:
        kind, there = type(error.obj), str(error.name)
        names = _FIELDS.get(there, "").split()
        here = next((name for name in names if hasattr(kind, name) or name.startswith("chat.")), None)
        if kind.__module__.startswith(_PACKAGE) and here is not None:
            return f": what is called {there} elsewhere is called {here} here"
    found = _UNEXPECTED.search(text) if type(error) is TypeError else None
    there = "" if found is None else found[1]
    return f": what is {there}= elsewhere is {_ARGUMENTS[there]} here" if there in _ARGUMENTS else ""


def report_filter(
    services: Services, count: Callable[[str], None], chat_id: ChatId, name: str, error: Exception
) -> None:
    """Count, log and report a filter's error on an event; the filter doesn't take the event."""
    count("filter_failed")
    line = failing_line(error.__traceback__)
    failed = f"{kind_of(error)} at {line}{_hint(error)}"
    shown = error if services.tracebacks else None
    log.error("filter %s failed on an event of %s: %s", name, place_name(chat_id), failed, exc_info=shown)
    # One alarm for each line of code, because a conversation may make filters with changing names.
    services.raise_alarm(Alarm("filter_failed", line, f"a filter failed with {failed}; it took nothing"))
    services.on_failure(error, name, chat_id, "")


def give_up(run: Run, what: str) -> None:
    """Stop a run at the current turn, because code and journal differ; `what` describes the difference."""
    run.diverge(run.main.turn, what, run.tasks.get(""))

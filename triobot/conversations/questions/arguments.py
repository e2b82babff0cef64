"""What authors hand to a chat, looked at before anything is done with it: errors name what they wrote."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import cast

from ...errors import ConfigError, LocalProtocolError
from ...seams import OnUnknown
from ...wire.content import CONTENT_CLASSES
from ...wire.events import Join, Leave, Message, Press, Submission
from ...wire.results import Sent
from ..running.waits import Otherwise

_EVENTS = (Message, Press, Submission, Join, Leave)


def check_content(content: object, name: str = "content") -> None:
    """Refuse what can't be said.

    Raises:
        LocalProtocolError: it is no content, or an empty text.
    """
    if not isinstance(content, CONTENT_CLASSES):
        raise LocalProtocolError(name, "must be text, a media value, a Contact or a Location")
    if content == "":
        raise LocalProtocolError(name, "must not be empty")


def check_question(question: object) -> None:
    """Refuse a question that is no text.

    Raises:
        LocalProtocolError: it isn't, or it is empty.
    """
    if not isinstance(question, str) or not question:
        raise LocalProtocolError("question", "must be text, and not empty")


def check_sent(sent: object, name: str = "sent") -> None:
    """Refuse what is no message that was sent.

    Raises:
        LocalProtocolError: it isn't.
    """
    if not isinstance(sent, Sent):
        raise LocalProtocolError(name, "must be a Sent: what send() returned")


def check_edit(sent: object, content: object, buttons: object) -> None:
    """Refuse an edit of nothing, or to nothing.

    Raises:
        LocalProtocolError: it is one.
    """
    check_sent(sent)
    if content is not None:
        check_content(content)
    elif buttons is None:
        raise LocalProtocolError("content", "must be given, or buttons: an edit changes something")


def on_unknown_of(word: object) -> OnUnknown:
    """Return the policy for a send of unknown outcome, by its word.

    Raises:
        LocalProtocolError: there is no such word.
    """
    if word == "resend":
        return OnUnknown.RESEND
    try:
        return OnUnknown(word)
    except ValueError:
        raise LocalProtocolError("on_unknown", 'is "resend" or "raise"') from None


def check_otherwise(otherwise: object) -> None:
    """Refuse what can't be done with what doesn't fit.

    Raises:
        ConfigError: it is neither a text nor an `Otherwise`.
    """
    if otherwise is not None and not isinstance(otherwise, str | Otherwise):
        raise ConfigError("otherwise= is a text to say, Otherwise.DROP or Otherwise.KEEP")


def check_kind(kind: object) -> None:
    """Refuse what `Chat.ask` could never make of an answer.

    Raises:
        ConfigError: it is neither a content class nor a plain function of a text.
    """
    if kind is str:
        return
    if not callable(kind) or inspect.iscoroutinefunction(kind):
        raise ConfigError(
            "ask() takes str, a content class such as Location, or a parser of text such as int; "
            "what has to wait is a step after it"
        )
    if kind in _EVENTS:
        name = cast("type", kind).__name__
        raise ConfigError(
            f"ask() takes a content class such as Location, and {name} is an event's; events are taken by "
            "chat.receive() with a filter"
        )


def check_raises(raises: object) -> tuple[type[Exception], ...]:
    """Return, as a tuple, the errors that a step may come back with.

    Raises:
        ConfigError: these are no classes of errors.
    """
    classes = cast("tuple[object, ...]", raises) if isinstance(raises, tuple) else (raises,)
    if not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        raise ConfigError("step(raises=) takes a class of errors such as ValueError, or a tuple of them")
    return cast("tuple[type[Exception], ...]", classes)


def check_labels(labels: object, names: Sequence[str], whose: str) -> None:
    """Refuse labels of fields that a form doesn't have.

    Raises:
        ConfigError: these are no labels by the names of its fields.
    """
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        raise ConfigError(f"fill(labels=) takes labels by the names of the fields of {whose}")
    for name in cast("Mapping[object, object]", labels):
        if name not in names:
            raise ConfigError(
                f"fill(labels=) names {name!r}, and {whose} has no such field; it has {', '.join(names)}"
            )


def check_money_words(currency: object, late: object) -> None:
    """Refuse what is no currency, and what would leave nobody with late money.

    Raises:
        LocalProtocolError: it is another word.
    """
    if currency not in ("IRR", "coin"):
        raise LocalProtocolError("currency", 'is "IRR" or "coin"')
    if late not in ("deliver", "refund"):
        raise LocalProtocolError("late", 'is "deliver" or "refund"')

"""Questions: send a message, and wait for the event that answers it.

A question opens its wait before the send, so that a fast answer is not missed. An event that doesn't fit is
answered with a hint. The end of a question removes the question's buttons, also after an error or a
cancellation. Arguments from authors are checked before any effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import contains
from typing import Any, Final, TypeVar, cast

from ...engine import LEFT, Run
from ...errors import BadRequestError, ConfigError, LocalProtocolError
from ...seams.outbox import OnUnknown
from ...wire.content import CONTENT_CLASSES, Audio, Contact, File, Image, Location, Video, Voice
from ...wire.events import Event, Message, Press, Submission
from ...wire.ids import MessageId
from ...wire.operations import SendMessage
from ...wire.results import Sent
from ..codec import CODEC
from ..operations import Operations
from ..routes.filters import Filter, Setting, check_filter
from ..routes.routing import (
    KIND,
    QUESTION,
    TOKEN_BYTES,
    Delivery,
    Otherwise,
    OtherwisePolicy,
    PrivateHint,
    Wait,
    question_token,
)
from ..routes.typed import NUMBERS, UNFIT, read_number
from ..running.branches import OperationKind
from ..running.failures import Ending
from ..running.lines import own_words
from .buttons import Keyboard, reply_of
from .forms import FormOf, Unreadable

T = TypeVar("T")
K = TypeVar("K")
Shared = TypeVar("Shared", Image, Video, Audio, Voice, File, Contact, Location)
SHARED: Final = (Image, Video, Audio, Voice, File, Contact, Location)


def new_token(run: Run, front: str = QUESTION) -> str:
    """Make a secret random token that identifies a question's buttons; a replay makes the same token."""
    return question_token(run.token(TOKEN_BYTES), front)


def policy(otherwise: OtherwisePolicy | None, hint: str) -> OtherwisePolicy:
    """Return the policy for events that don't fit: `otherwise`, or by default `hint` in private chats."""
    if otherwise is None:
        return PrivateHint(hint)
    check_otherwise(otherwise)
    return otherwise or Otherwise.DROP  # empty text: no hint


# --- waits


def begin_wait(operations: Operations, wait: Wait) -> Wait:
    """Open a wait, before any request is sent. The caller must call `end_wait` later, also after an error."""
    operations.check_task()
    wait.owner = operations.facts.owner
    operations.conversation.seat.waits.append(wait)
    operations.actor.offer_queued(operations.conversation, wait)
    return wait


def reopen_wait(operations: Operations, wait: Wait) -> None:
    """Offer the chat's queued events to an open wait again, because the last event was not the answer."""
    if wait.open:
        operations.actor.offer_queued(operations.conversation, wait)


def end_wait(operations: Operations, wait: Wait) -> None:
    """Close a wait; the wait's unread events go back to the chat."""
    operations.conversation.seat.waits.remove(wait)
    if wait.ready:
        look_again(operations, wait)


def look_again(operations: Operations, wait: Wait) -> None:
    """Return the wait's unread events to the chat, which routes each event again."""
    given = wait.let_all_go()
    if operations.conversation.dead:
        return  # the events are still in the inbox
    for delivery in given:
        if operations.run.withdraw(delivery.seq) and delivery.seq:
            operations.actor.give_back(operations.conversation, delivery)


def _tell_resting(wait: Wait) -> None:
    if wait.rests and wait.when_resting is not None:
        wait.when_resting()


def drain(operations: Operations) -> Sequence[Event]:
    """Return the chat's queued events, and remove them from the queue."""
    operations.enter(OperationKind.SCOPE)
    brought = set[int]()

    def bring() -> None:
        # Events after an interrupt belong to the next conversation, even before this code is cancelled.
        if operations.conversation.ending is None:
            brought.update(operations.actor.bring_queued(operations.conversation))

    def take(delivery: Delivery) -> object:
        return delivery.event if delivery.seq in brought else LEFT

    return cast("list[Event]", operations.run.drain(take, bring))


@contextmanager
def open_wait(operations: Operations, wait: Wait) -> Generator[Wait]:
    """Open a wait for the block, and close the wait after the block, also after an error."""
    begin_wait(operations, wait)
    try:
        yield wait
    finally:
        end_wait(operations, wait)


async def answered(operations: Operations, wait: Wait, again: bool = False) -> object:
    """Wait for the next event that the wait takes. For events that don't fit, send the hint.

    Args:
        again: see `Run.wait`.

    Raises: an error that the author's filter raised on an event.

    Cancellation: *atomic*: the event is taken, or stays for another wait.
    """
    while True:
        operations.enter(OperationKind.RECEIVE)
        run = operations.run
        if not (run.over or run.dying):
            # Set `rests` on replay, too: this branch may have passed the journal's end while other branches
            # still replay.
            wait.rests, wait.around = True, run.current().around
            if wait.when_resting is not None:
                if (replay := operations.conversation.replay) and operations.conversation.replaying:
                    replay.when_over = [*replay.when_over, partial(_tell_resting, wait)]
                else:
                    wait.when_resting()
            if not wait.ready:
                operations.actor.offer_queued(operations.conversation, wait, resting=True)
        try:
            taken: tuple[Any, ...] = await run.wait(KIND, wait, "", again, beneath=1)
        finally:
            wait.rests, wait.around = False, ()
        event, seq, _, value, *failed = taken
        wait.let_go(seq)
        if (replay := operations.conversation.replay) is not None and replay.changed is not None:
            replay.changed.took = event
        if failed:
            raise CODEC.error_of(failed[0])
        if value is not None:
            if type(event) is Press:
                operations.take_press(event)
            return value[0]
        await say_again(operations, wait, str(wait.otherwise))


async def say_again(operations: Operations, wait: Wait, text: str) -> None:
    """Send the hint, and offer queued events to the wait again."""
    reopen_wait(operations, wait)
    await operations.perform(SendMessage(operations.chat_id, text))


async def receive(operations: Operations, taken: Filter[T], otherwise: OtherwisePolicy | None) -> T:
    """Wait for the next event that the filter takes, and return the filter's value."""
    check_filter(taken, "receive()")
    check_otherwise(otherwise)
    with open_wait(operations, Wait(taken.look, otherwise or Otherwise.DROP)) as wait:
        return cast("T", await answered(operations, wait))


async def ask(
    operations: Operations,
    question: str,
    kind: Callable[[str], object] | type[object],
    keyboard: Keyboard | None,
    by: int | None,
    otherwise: OtherwisePolicy | None,
) -> object:
    """Send a question, and return the answer: a text, a value parsed from a text, or a content value."""
    check_question(question)
    if kind is not str:
        check_kind(kind)
    check_by(by)
    texts = operations.conversation.texts
    shared = kind if kind is not str and isinstance(kind, type) and kind in SHARED else None
    hint = str(getattr(texts, f"want_{shared.__name__.lower()}")) if shared else texts.want_text
    look = _text if by is None and shared is None else partial(_content, shared or str, by)
    reply = None if keyboard is None else reply_of(keyboard)
    said = policy(otherwise, hint)
    # `open_wait` without its context manager, for speed: most turns run this code.
    wait = begin_wait(operations, Wait(look, said))
    try:
        await operations.perform(SendMessage(operations.chat_id, question, reply_keyboard=reply))
        while True:
            value = await answered(operations, wait, True)
            if shared is not None or kind is str or not isinstance(value, str):
                return value
            try:
                if kind in NUMBERS:
                    return read_number(kind, value)
                return cast("Callable[[str], object]", kind)(value)
            except UNFIT as error:
                words = own_words(error, operations.facts.route.handler.__module__)
                unread = texts.want_number if kind in NUMBERS else hint
                await say_again(operations, wait, words or unread)
    finally:
        end_wait(operations, wait)


def _text(event: Event, setting: Setting) -> object | None:
    return event.content if isinstance(event, Message) and isinstance(event.content, str) else None


def _content(wanted: type[object], by: int | None, event: Event, setting: Setting) -> object | None:
    if not isinstance(event, Message) or not isinstance(event.content, wanted) or not is_by(event, by):
        return None
    content: object = event.content
    return content


async def fill(
    operations: Operations,
    cls: type[T],
    question: str,
    labels: Mapping[str, str] | None,
    prefill: T | None,
    otherwise: OtherwisePolicy | None,
) -> T:
    """Send a native form, and return the submitted values as an instance of `cls`."""
    texts = operations.conversation.texts
    if question:
        check_question(question)
    shape = FormOf(cls, texts, labels)
    shape.check(prefill)
    shown: MessageId | None = None
    used: set[MessageId] = set()

    def look(event: Event, setting: Setting) -> object | None:
        if not isinstance(event, Submission) or event.message_id in used:
            return None
        # Until the platform has returned the message's id, only the field names identify the form.
        mine = event.message_id == shown if shown is not None else shape.fits({k for k, _ in event.values})
        return event if mine else None

    said = policy(otherwise, texts.want_form)
    with open_wait(operations, Wait(look, said, question=True)) as wait:
        text, typed, fills_in = question or texts.want_form, None, True
        while True:
            form = shape.form(prefill, typed) if fills_in else shape.form()
            operation = SendMessage(operations.chat_id, text, form=form)
            own = operations.check_task()
            try:
                shown = (await operations.perform(operation)).id
            except BadRequestError:
                if not fills_in or (prefill is None and typed is None):
                    raise
                # The platform's interface allows a preset `value` only for barcodes and QR codes (`inbuilt`).
                # So send the form again, with empty fields.
                fills_in = False
                continue
            writer = operations.conversation.writer
            repeated = () if writer is None else writer.repeated_ids
            if operations.run.note(f"doubt {own}", partial(contains, repeated, own)):
                # The form may be on the screen twice, and the first message's id is unknown.
                shown = None
            # Submissions during the send were matched by their field names alone: match them again.
            look_again(operations, wait)
            event = cast("Submission", await answered(operations, wait))
            try:
                return shape.read(dict(event.values))
            except Unreadable as error:
                # A form can be submitted only once: send another form, with the error's text as the question
                # and the typed values filled in.
                typed = dict(event.values)
                used.add(event.message_id)
                text, shown = str(error), None
                reopen_wait(operations, wait)


def tidy(operations: Operations, sent: Sent, text: str) -> None:
    """Edit the message `sent` to `text`, without buttons, in a task beside the conversation.

    No edit is sent if the user has left, or if the conversation's next operation changes the same message. A
    stop of the program also prevents the edit, because the conversation goes on after the restart.
    """
    conversation, work, dry = operations.conversation, operations.shared.work, operations.dry
    if dry is not None and sent.id is not None:
        dry.look.tidies(sent.id)
    # An evicted conversation still waits for an answer, and a press of its buttons reloads the conversation.
    if work.cut or conversation.ending is Ending.LEFT or conversation.replaying or conversation.dead:
        return
    if sent.id is None:
        work.count("left_untidy")
        return
    operations.shared.cleanup.owe(operations.chat_id, sent.id, text, operations.also, operations.ahead)


def check_by(by: object) -> None:
    if by is not None and (isinstance(by, bool) or not isinstance(by, int)):
        raise ConfigError("by= takes a whole number, a sender's id, such as chat.sender.id")


def is_by(event: Event, by: int | None) -> bool:
    """Whether the user `by` sent the event; always true if `by` is None."""
    return by is None or (event.sender is not None and event.sender.id == by)


# --- checks of authors' arguments


def check_content(content: object, name: str = "content") -> None:
    """Check that `content` can be sent.

    Raises:
        LocalProtocolError: `content` has a wrong type, or is an empty text.
    """
    if not isinstance(content, CONTENT_CLASSES):
        raise LocalProtocolError(name, "must be text, a media value, a Contact or a Location")
    if content == "":
        raise LocalProtocolError(name, "must not be empty")


def check_question(question: object) -> None:
    """Check that a question is a text.

    Raises:
        LocalProtocolError: `question` is not a text, or is empty.
    """
    if not isinstance(question, str) or not question:
        raise LocalProtocolError("question", "must be text, and not empty")


def check_sent(sent: object, name: str = "sent") -> None:
    """Check that `sent` is a sent message.

    Raises:
        LocalProtocolError: `sent` is not a `Sent`.
    """
    if not isinstance(sent, Sent):
        raise LocalProtocolError(name, "must be a Sent: what send() returned")


def check_edit(sent: object, content: object, buttons: object) -> None:
    """Check an edit's arguments.

    Raises:
        LocalProtocolError: `sent` is no message, `content` can't be sent, or neither `content` nor `buttons`
            is given.
    """
    check_sent(sent)
    if content is not None:
        check_content(content)
    elif buttons is None:
        what = "must be given, or buttons: an edit changes something; buttons=Buttons({}) takes buttons away"
        raise LocalProtocolError("content", what)


def on_unknown_of(word: object) -> OnUnknown:
    """Return the policy with the name `word`, for sends whose outcome is unknown.

    Raises:
        LocalProtocolError: `word` is not a policy's name.
    """
    if word == "resend":
        return OnUnknown.RESEND
    try:
        return OnUnknown(word)
    except ValueError:
        raise LocalProtocolError("on_unknown", 'is "resend" or "raise"') from None


def check_otherwise(otherwise: object) -> None:
    """Check the policy for events that don't fit.

    Raises:
        ConfigError: `otherwise` is neither a text nor an `Otherwise`.
    """
    if otherwise is not None and not isinstance(otherwise, str | Otherwise):
        raise ConfigError("otherwise= is a text to say, Otherwise.DROP or Otherwise.KEEP")


def check_kind(kind: object) -> None:
    """Check that `Chat.ask` can convert an answer to `kind`.

    Raises:
        ConfigError: `kind` can't be called, or is an async function.
    """
    if kind is str:
        return
    if not callable(kind) or inspect.iscoroutinefunction(kind):
        raise ConfigError(
            "ask() takes str, a content class such as Location, or a parser of text such as int; "
            "what has to wait is a step after it"
        )

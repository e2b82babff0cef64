"""Questions: say something, and wait for what answers it.

Each opens its wait before it sends, so that a fast answer is not missed; says what is wrong when something
else comes; and takes its buttons away however it ends. What authors hand over is looked at before anything is
done with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from operator import contains
from typing import Any, Final, TypeVar, cast

from ...engine import LEFT
from ...errors import BadRequestError, ConfigError, LocalProtocolError
from ...seams.outbox import OnUnknown
from ...wire.content import CONTENT_CLASSES, Audio, Contact, File, Image, Location, Video, Voice
from ...wire.events import Event, Join, Leave, Message, Press, Submission
from ...wire.ids import MessageId
from ...wire.operations import SendMessage
from ...wire.results import Sent
from ..codec import CODEC
from ..conversation import Conversation
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
_EVENTS: Final = (Message, Press, Submission, Join, Leave)
SHARED: Final = (Image, Video, Audio, Voice, File, Contact, Location)


def new_token(conversation: Conversation, front: str = QUESTION) -> str:
    """Draw a secret token, which tells a question's buttons from another's; a replay draws it again."""
    return question_token(conversation.run.token(TOKEN_BYTES), front)


def policy(otherwise: OtherwisePolicy | None, hint: str) -> OtherwisePolicy | PrivateHint:
    """Return what becomes of events that don't fit: this hint, unless `otherwise` says something else."""
    if otherwise is None:
        return _private(hint)
    check_otherwise(otherwise)
    return otherwise or Otherwise.DROP  # no word to say


_private: Final = lru_cache(256)(PrivateHint)
"""One for all questions that say the same."""


# --- waits


def begin_wait(conversation: Conversation, wait: Wait) -> Wait:
    """Begin to take events, before anything is sent; `end_wait` it however it ends."""
    conversation.check_task()
    wait.owner = conversation.owner
    conversation.waits.append(wait)
    conversation.life.offer_queued(conversation, wait)
    return wait


def reopen_wait(conversation: Conversation, wait: Wait) -> None:
    """Take events again: another one than the last is wanted."""
    if wait.open:
        conversation.life.offer_queued(conversation, wait)


def end_wait(conversation: Conversation, wait: Wait) -> None:
    """Stop taking events; what was given and not looked at goes back to the chat."""
    conversation.waits.remove(wait)
    if wait.ready:
        look_again(conversation, wait)


def look_again(conversation: Conversation, wait: Wait) -> None:
    """Route again what the wait was given and has not looked at: what it takes has changed."""
    given = wait.let_all_go()
    if conversation.dead:
        return  # the events wait in the inbox
    for answer in given:
        if conversation.run.withdraw(answer.delivery.seq) and answer.delivery.seq:
            conversation.life.give_back(conversation, answer.delivery)


def _tell_resting(wait: Wait) -> None:
    if wait.rests and wait.when_resting is not None:
        wait.when_resting()


def drain(conversation: Conversation) -> Sequence[Event]:
    """Take what is queued."""
    conversation.enter(OperationKind.SCOPE)
    brought = set[int]()

    def bring() -> None:
        # What comes after an interrupt is not for what that ends, even before its code has felt it.
        if conversation.ending is None:
            brought.update(conversation.life.bring_queued(conversation))

    def take(delivery: Delivery) -> object:
        return delivery.event if delivery.seq in brought else LEFT

    return cast("list[Event]", conversation.run.drain(take, bring))


@contextmanager
def open_wait(conversation: Conversation, wait: Wait) -> Generator[Wait]:
    """Open a wait, and close it however the block ends."""
    begin_wait(conversation, wait)
    try:
        yield wait
    finally:
        end_wait(conversation, wait)


async def answered(conversation: Conversation, wait: Wait, again: bool = False) -> object:
    """Wait for the next event that the wait takes, and say the hint to what doesn't fit.

    Args:
        again: see `Run.wait`.

    Raises: what the author's filter raised on an event.

    Cancellation: *atomic*: an event is taken, or it is next for another wait.
    """
    while True:
        conversation.enter(OperationKind.RECEIVE)
        run = conversation.run
        if not (run.over or run.dying):
            # On replay, too: others may have gone on while this branch stays beyond the end of the journal.
            wait.rests, wait.around = True, run.current().around
            if wait.when_resting is not None:
                conversation.when_live(
                    partial(_tell_resting, wait)
                ) if conversation.replaying else wait.when_resting()
            if not wait.ready:
                conversation.life.offer_queued(conversation, wait, resting=True)
        try:
            taken: tuple[Any, ...] = await run.wait(KIND, wait, "", again, beneath=1)
        finally:
            wait.rests, wait.around = False, ()
        event, seq, _, value, *failed = taken
        wait.let_go(seq)
        if conversation.changed is not None:
            conversation.changed.took = event
        if failed:
            raise CODEC.error_of(failed[0])
        if value is not None:
            if type(event) is Press:
                conversation.take_press(event)
            return value[0]
        await say_again(conversation, wait, wait.hint)


async def say_again(conversation: Conversation, wait: Wait, text: str) -> None:
    """Tell the user what is wrong, and wait on."""
    reopen_wait(conversation, wait)
    await conversation.perform(SendMessage(conversation.life.chat_id, text))


async def receive(conversation: Conversation, taken: Filter[T], otherwise: OtherwisePolicy | None) -> T:
    """Wait for the next event that the filter takes, and return what the filter makes of it."""
    check_filter(taken, "receive()")
    check_otherwise(otherwise)
    with open_wait(conversation, Wait(taken.look, otherwise or Otherwise.DROP)) as wait:
        return cast("T", await answered(conversation, wait))


async def ask(
    conversation: Conversation,
    question: str,
    kind: Callable[[str], object] | type[object],
    keyboard: Keyboard | None,
    by: int | None,
    otherwise: OtherwisePolicy | None,
) -> object:
    """Ask for text, for parsed text, or for a content class."""
    check_question(question)
    if kind is not str:
        check_kind(kind)
    check_by(by)
    texts = conversation.texts
    shared = kind if kind is not str and isinstance(kind, type) and kind in SHARED else None
    hint = str(getattr(texts, f"want_{shared.__name__.lower()}")) if shared else texts.want_text
    look = _text if by is None and shared is None else partial(_content, shared or str, by)
    reply = None if keyboard is None else reply_of(keyboard)
    said = policy(otherwise, hint)
    # As `open_wait`, without its detour: this is what most turns are.
    wait = begin_wait(conversation, Wait(look, said))
    try:
        await conversation.perform(SendMessage(conversation.life.chat_id, question, reply_keyboard=reply))
        while True:
            value = await answered(conversation, wait, True)
            if shared is not None or kind is str or not isinstance(value, str):
                return value
            try:
                if kind in NUMBERS:
                    return read_number(kind, value)
                return cast("Callable[[str], object]", kind)(value)
            except UNFIT as error:
                words = own_words(error, conversation.route.handler.__module__)
                unread = texts.want_number if kind in NUMBERS else hint
                await say_again(conversation, wait, words or unread)
    finally:
        end_wait(conversation, wait)


def _text(event: Event, setting: Setting) -> object | None:
    """Take text, whoever wrote it."""
    return event.content if isinstance(event, Message) and isinstance(event.content, str) else None


def _content(wanted: type[object], by: int | None, event: Event, setting: Setting) -> object | None:
    """Take content of this class, from this person if one is given."""
    if not isinstance(event, Message) or not isinstance(event.content, wanted) or not is_by(event, by):
        return None
    content: object = event.content
    return content


async def fill(
    conversation: Conversation,
    cls: type[T],
    question: str,
    labels: Mapping[str, str] | None,
    prefill: T | None,
    otherwise: OtherwisePolicy | None,
) -> T:
    """Ask with a native form; the answer is a value of the class."""
    texts = conversation.texts
    if question:
        check_question(question)
    shape = FormOf(cls, texts, labels)
    shape.check(prefill)
    shown: MessageId | None = None
    used: set[MessageId] = set()

    def look(event: Event, setting: Setting) -> object | None:
        if not isinstance(event, Submission) or event.message_id in used:
            return None
        # Until the platform has told the message's id, only the fields can say whose form this is.
        mine = event.message_id == shown if shown is not None else shape.fits({k for k, _ in event.values})
        return event if mine else None

    said = policy(otherwise, texts.want_form)
    with open_wait(conversation, Wait(look, said, question=True)) as wait:
        text, typed, fills_in = question or texts.want_form, None, True
        while True:
            form = shape.form(prefill, typed) if fills_in else shape.form()
            operation = SendMessage(conversation.life.chat_id, text, form=form)
            own = conversation.check_task()
            try:
                shown = (await conversation.perform(operation)).id
            except BadRequestError:
                if not fills_in or (prefill is None and typed is None):
                    raise
                # The interface promises a `value` for codes only (`inbuilt`).
                fills_in = False
                continue
            repeated = () if conversation.writer is None else conversation.writer.repeated_ids
            if conversation.run.note(f"doubt {own}", partial(contains, repeated, own)):
                # There may be two of them on the screen, and nobody was told the first one's id.
                shown = None
            # What came meanwhile was judged by its fields alone.
            look_again(conversation, wait)
            event = cast("Submission", await answered(conversation, wait))
            try:
                return shape.read(dict(event.values))
            except Unreadable as error:
                # The form is used up: another one, with the reason above it, and nothing to type twice.
                typed = dict(event.values)
                used.add(event.message_id)
                text, shown = str(error), None
                reopen_wait(conversation, wait)


def tidy(conversation: Conversation, sent: Sent, text: str) -> None:
    """Leave a message as its last text without buttons, beside the conversation, when its question ends.

    Not if the program stops or the user has left; nor if the conversation changes the message at once by
    itself: what it shows then must stay. When the program stops, the conversation isn't over, only its
    process.
    """
    work, dry = conversation.work, conversation.dry
    if dry is not None and sent.id is not None:
        dry.look.tidies(sent.id)
    # Who leaves memory asks still, and its buttons are pressed to bring it back.
    if work.cut or conversation.ending is Ending.LEFT or conversation.replaying or conversation.dead:
        return
    if sent.id is None:
        work.count("left_untidy")
        return
    early = None if conversation.writer is None else conversation.writer.ahead
    tidying, chat_id = conversation.shared.tidying, conversation.life.chat_id
    tidying.owe(chat_id, sent.id, text, conversation.also, early)


def check_by(by: object) -> None:
    """Refuse what is no sender's id."""
    if by is not None and (isinstance(by, bool) or not isinstance(by, int)):
        raise ConfigError("by= takes a whole number, a sender's id, such as chat.sender.id")


def is_by(event: Event, by: int | None) -> bool:
    """Return whether this person did something; None is anybody."""
    return by is None or (event.sender is not None and event.sender.id == by)


# --- what authors hand over: errors name what they wrote


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
        what = "must be given, or buttons: an edit changes something; buttons=Buttons({}) takes buttons away"
        raise LocalProtocolError("content", what)


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

"""People's recorded answers, repeated in a branch. The branch continues from a notch, or runs new code from
the start.

A press is repeated on a button with the same key. A submission is repeated on a form with the same fields. A
text is repeated if the open question seems to be the question that was answered. An answer without a match
isn't repeated: the developer must decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast, final

import attrs

from ...base.frozen import guarded
from ...conversations.calls.signals import Signal, is_signal
from ...conversations.codec import CODEC
from ...conversations.revival.stored import Stored
from ...emulator.chats import ChatMessage
from ...emulator.person import act_of
from ...engine import Record
from ...engine.records import DONE, ENDED, FIRED, INTERRUPTED, TURNS, time_of
from ...errors import TriobotError
from ...seams.money import PaymentNotice
from ...wire.content import Blob, Content, Media
from ...wire.events import Event, Join, Leave, Message, Press, Sender, Submission, beside
from ...wire.forms import Submit
from ...wire.ids import SenderId
from ...wire.markup import CallbackButton
from .branches import LiveBranch
from .past import event_of, notices_in
from .staging import ByPerson, events_in


@final
@guarded
class Paying:
    """A person's payment, by a payment button or an invoice; `notice` contains the outcome."""

    notice: PaymentNotice


Given: TypeAlias = Event | Paying
Said: TypeAlias = tuple[int, SenderId, str]
"""A text that a person wrote in a chat, as the platform recorded it: time, sender, text."""
_MOMENT: Final = 50
"""Greatest difference between the clocks of the platform and of the bot's process, in milliseconds."""


@final
@guarded
class PastAnswer:
    """A recorded act of a person.

    Attributes:
        at: wall milliseconds of the act.
        what: the event, or a payment.
        asked: journal record of the message that the act answered.
        is_late: whether the act came after the conversation's first time-out, or after its end.
    """

    at: int
    what: Given = attrs.field(repr=False)
    asked: Record | None = attrs.field(default=None, repr=False)
    is_late: bool = False


class UnfitAnswerError(TriobotError):
    """A recorded answer doesn't fit the question that is open."""


def answers_in(stored: Stored, beside: Sequence[Stored] = ()) -> list[PastAnswer]:
    """Return people's acts and the received signals of a conversation, in order, without the opening event.

    Acts that started an interrupt are included: other code may not declare that interrupt.

    Args:
        beside: the journals of other conversations of the chat.
    """
    found: list[PastAnswer] = []
    asked: Record | None = None
    for place, record in enumerate(stored.records):
        if record[0] not in TURNS:
            continue
        if is_sending(record) and not _is_hint(stored, place):
            asked = record
        if (what := given_at(stored, place, beside)) is None:
            continue
        found.append(PastAnswer(time_of(record), what, asked))
    return found


def late_answers(stored: Stored, beside: Sequence[Stored], said: Sequence[Said]) -> list[PastAnswer]:
    """Return people's acts that a conversation missed: acts after its first time-out or after its end.

    Later conversations of the chat may have received such an act. A text that no conversation received is
    found in `said`, the texts that the platform recorded.
    """
    ends = (r for r in stored.records if r[0] == ENDED or (r[0] == FIRED and r[4] is None))
    if (end := next(ends, None)) is None:
        return []
    since, whose = time_of(end), stored.row.sender_id
    own = {r[2] for r in stored.records if r[0] == INTERRUPTED}
    found, loose = list[PastAnswer](), [one for one in said if one[0] >= since and whose in (None, one[1])]
    for one in (stored, *beside):
        with suppress(Exception):  # classes in another conversation's records may be gone
            for at, event in events_in(one.records):
                wrote = getattr(event.sender, "id", None), getattr(event, "content", None)
                for written in [one for one in loose if one[1:] == wrote and one[0] <= at + _MOMENT][-1:]:
                    loose.remove(written)
            if one is not stored and one.row.kind != "aside" and one.row.sender_id == whose:
                begun = [PastAnswer(*first) for first in events_in(one.records[:1]) if one.row.id not in own]
                found += [*begun, *answers_in(one)]
    found += [PastAnswer(at, Message(stored.row.chat_id, text, Sender(who))) for at, who, text in loose]
    late = [one for one in found if one.at >= since and isinstance(one.what, Message | Press | Submission)]
    return [attrs.evolve(one, is_late=True) for one in late]


def is_sending(record: Record) -> bool:
    """Whether `record` is the outcome of a message that the bot sent."""
    return record[0] == DONE and str(record[3]).startswith("send ")


def _is_hint(stored: Stored, place: int) -> bool:
    """Whether the message at `place` is the bot's hint after an answer that didn't fit the open question."""
    before = next((r for r in reversed(stored.records[:place]) if r[0] in TURNS), None)
    if before is None or before[0] != DONE or event_of(before) is None or before[3] != "receive":
        return False
    return cast("tuple[object, ...]", CODEC.value_of(before[5]))[3] is None


def given_at(stored: Stored, place: int, beside: Sequence[Stored] = ()) -> Given | None:
    """Return the person's act, or the signal, that began the turn of record `place`; None without either."""
    record = stored.records[place]
    event = event_of(record) if record[0] in (DONE, FIRED) else None
    if record[0] == INTERRUPTED:
        # A conversation's number is the number of its opening event.
        event = next((event_of(one.records[0]) for one in beside if one.row.id == record[2]), None)
    if isinstance(event, ByPerson) or is_signal(event):
        return event
    if event is not None:  # an event about a payment; the following records contain the outcome
        later = (notice for r in stored.records[place:] for notice in notices_in(r))
        value = cast("tuple[Any, ...]", CODEC.value_of(record[5]))[3]
        if value is not None and value[0] is None and (notice := next(later, None)) is not None:
            return Paying(notice)
    return None


# --- giving


def key_in(data: str) -> str:
    """Return the key of a button: the button's data after the question's token."""
    return data.partition(".")[2]


async def give(branch: LiveBranch, answer: PastAnswer, *, exactly: bool = True) -> None:
    """Repeat a person's act in a branch.

    Args:
        exactly: whether the open question is known to be the question that was answered. If not, a text is
            sent only if the chat shows no message of the bot.

    Raises:
        UnfitAnswerError: the screen shows nothing that fits `answer`.
    """
    what = answer.what
    match what:
        case Paying(notice=notice):
            await _pay(branch, notice)
        case Press():
            await branch.act("press", _button(branch, what), _who(branch, what))
        case Submission():
            await _submit(branch, what)
        case Message():
            if not exactly:
                _check_question(branch)
            await _say(branch, what)
        case Join():
            # A person who joins can't be a member already, so the membership is removed first.
            members = branch.exchange.world.chat(branch.past.chat_id).members
            members.difference_update({_who(branch, what)})
            await branch.act("join", {}, _who(branch, what))
        case Leave():
            await branch.act("leave", {}, _who(branch, what))
        case _ if isinstance(cast("object", what), Signal):
            await branch.tells(cast("Signal", what).value)
        case _:
            raise UnfitAnswerError("this answer is none that a person gives in the app")


def _who(branch: LiveBranch, event: Event) -> int | None:
    sender = event.sender
    ids = [person.id for person in branch.people]
    return None if sender is None or sender.id not in ids else sender.id


async def _say(branch: LiveBranch, event: Message[Content]) -> None:
    who, content = _who(branch, event), event.content
    keyboard = branch.exchange.world.chat(branch.past.chat_id).reply_keyboard
    keys = [] if keyboard is None else [key for row in keyboard.rows for key in row]
    if (key := next((one for one in keys if one.value == content), None)) is not None:
        await branch.act("tap", {"label": key.label, "value": key.value}, who)
        return
    if isinstance(content, Media) and not isinstance(content.source, Blob):
        content = attrs.evolve(content, source=Blob(b"-", content.filename or "file"))
    name, given = act_of(content)
    await branch.act(name, given | beside(event), who)


def _entries(branch: LiveBranch) -> Sequence[ChatMessage]:
    chat = branch.exchange.world.chat(branch.past.chat_id)
    return [entry for entry in chat.in_sight() if entry.author is None]


def _button(branch: LiveBranch, press: Press[object]) -> dict[str, Any]:
    """Return the position of the button to press: the button with the same data, else with the same key."""
    found = [
        (button, {"message": entry.id, "row": row, "column": column, "label": button.text})
        for entry in _entries(branch)
        for row, buttons in enumerate(entry.rows())
        for column, button in enumerate(buttons)
        if isinstance(button, CallbackButton)
    ]
    same = [place for button, place in found if button.data == str(press.value)]
    keyed = [place for button, place in found if key_in(button.data) == key_in(str(press.value))]
    for place in (*same, *keyed):
        return place
    raise UnfitAnswerError("there is no button like the one that was pressed")


async def _submit(branch: LiveBranch, submission: Submission) -> None:
    entry = next((one for one in _entries(branch) if one.form is not None), None)
    if entry is None or entry.form is None:
        raise UnfitAnswerError("there is no form like the one that was sent")
    fields = {field.name for field in entry.form.fields if not isinstance(field, Submit)}
    values = dict(submission.values)
    if not values.keys() <= fields:
        raise UnfitAnswerError("the form has other fields than the one that was sent")
    await branch.act("submit", {"values": values, "message": entry.id}, _who(branch, submission))


async def _pay(branch: LiveBranch, notice: PaymentNotice) -> None:
    if not any(bill.state(branch.now) == "open" for bill in branch.exchange.world.bills):
        raise UnfitAnswerError("there is nothing to pay")
    if notice.outcome in ("paid", "mismatch"):
        await branch.pays()
    else:
        await branch.pays(code=notice.code or 1000)


def _check_question(branch: LiveBranch) -> None:
    """Check that the chat shows no message of the bot: any such message may be another question.

    Raises:
        UnfitAnswerError: the chat shows a message of the bot.
    """
    newest = next((entry for entry in _entries(branch)), None)
    if newest is None:
        return
    if any(isinstance(button, CallbackButton) for button in newest.buttons()) or newest.form is not None:
        raise UnfitAnswerError("what is open is answered with a button or a form, and not with a text")
    raise UnfitAnswerError("what is open is another question than the one that was answered")

"""Rebuilds a chat on an emulated platform as its people saw it at a notch: messages, presses, forms, bills.

The platform receives the conversation's operations and the people's acts again, in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast, final

import attrs

from ...conversations.codec import CODEC
from ...emulator.acts import NOT_ENOUGH, Acting
from ...emulator.chats import Clicked, Edited, MoneyMoved, PlatformChat, Pressed, PressReply, Submitted
from ...emulator.performing import perform
from ...emulator.world import User, World
from ...engine import Record, encode_record
from ...engine.records import DONE, NOTED, WROTE, time_of
from ...seams.money import Captured
from ...seams.rooms import is_chat
from ...wire.content import Media
from ...wire.events import Event, Join, Leave, Message, Press, Sender, Submission, beside
from ...wire.ids import CallbackId, MessageId, SenderId
from ...wire.markup import CallbackButton, PayButton
from ...wire.operations import EditMessage, Operation, SendMessage
from ...wire.results import Sent
from .fence import Fence
from .past import Past, captured_in, event_of, notices_in
from .views import cut

ByPerson: TypeAlias = Message | Press | Submission | Join | Leave
"""An act of a person in a chat."""
PLENTY: Final = 100_000_000
"""Money in each person's wallet; the journal lacks the real amount."""
_TIDY: Final = "tidy "
_DRAIN: Final = "drain "
_FILE: Final = re.compile(r"/files/([A-Za-z0-9]+)/")
_UNTOLD: Final = 10**12
"""People's messages get numbers above this number if the next numbers belong to messages of the bot.

The event of a message lacks the message's number.
"""


@final
class ChatStage:
    """Rebuilds a conversation's chat on an empty platform.

    Args:
        sent: texts of the sent messages, by operation; the current code may have other texts.

    Attributes:
        people: the people who acted, by sender id; the key None is for a person without an id.
        declined: failed payments, each as the number of the platform's newest change before the payment, the
            time, and the error code.
    """

    def __init__(
        self,
        world: World,
        past: Past,
        fence: Fence,
        *,
        group: bool | None = None,
        numbers: int = 0,
        sent: Mapping[str, str] | None = None,
    ) -> None:
        self._world = world
        self._fence = fence
        self._past = past
        self._sent = sent or {}
        self._chat_id = past.chat_id
        self._events = list(events_in(past.whole.records))
        senders = {event.sender.id: event.sender for _, event in self._events if event.sender is not None}
        self.group = len(senders) > 1 if group is None else group
        self.people: dict[SenderId | None, User] = {}
        self.declined: list[tuple[int, int, int]] = []
        self._sent_ids = {sent.id for sent in map(sent_in, past.whole.records) if sent is not None}
        self._newest = numbers
        if is_chat(self._chat_id):
            self._chat = self._populate(list(senders.values()))

    def _populate(self, senders: Sequence[Sender]) -> PlatformChat:
        world = self._world
        # If the journal's events have no senders, this platform's events have none either.
        world.switches = attrs.evolve(world.switches, senders=bool(senders))
        chat = world.add_group(f"chat{self._chat_id}", self._chat_id) if self.group else None
        heard: Sequence[Sender | None] = senders or [None]
        for sender in heard:
            name = "" if sender is None else sender.name
            if not name or any(user.name == name for user in world.people):
                name = f"{name or 'User'} {self._chat_id if sender is None else sender.id}"
            self.people[None if sender is None else sender.id] = world.add_user(
                name,
                user_id=None if sender is None else sender.id,
                chat_id=None if self.group else self._chat_id,
                username=None if sender is None else sender.username or None,
                irr=PLENTY,
                coin=PLENTY,
            )
        shown = world.chat(self._chat_id) if chat is None else chat
        # Every person counts as a member until the journal shows a join or a leave.
        shown.members.update(user.id for user in self.people.values())
        return shown

    def play(self) -> None:
        """Repeat the operations and acts up to the notch."""
        # People's messages get numbers from the same sequence as the bot's messages.
        self._world.number_from(self._newest, self._world.invoices)
        for record in self._past.stored.records:
            at = time_of(record)
            for event in events_of(record) if is_chat(self._chat_id) else ():
                self._happened(event, at)
            for file_id in _FILE.findall(encode_record(record)):
                # Register each file of the journal, so that the code can send the file again.
                self._world.uploads.add(file_id, "file", "file", 0)
            if record[0] == WROTE and str(record[3]).startswith(_TIDY):
                self._without_buttons(MessageId(int(str(record[3]).removeprefix(_TIDY))))
            elif record[0] == DONE and (operation := self._past.sent.get(str(record[2]))) is not None:
                said = self._as_sent(operation, str(record[2]))
                self._performed(said, CODEC.value_of(record[5]), at)
            for money in captured_in(record):
                self.paid(money, at)
            for notice in notices_in(record):
                if notice.outcome in ("retry", "declined"):
                    self.declined.append((self._world.seq, at, notice.code or NOT_ENOUGH))
        world = self._world
        world.number_from(max(self._newest, world.last_message % _UNTOLD), world.invoices)

    # --- the conversation's operations

    def _as_sent(self, operation: Operation[object], id: str) -> Operation[object]:
        """Return the operation with the words that were sent, if the current code's words differ."""
        text = self._sent.get(id)
        if text is None or not isinstance(operation, SendMessage | EditMessage):
            return operation
        now = operation.content
        return (
            attrs.evolve(operation, content=text) if isinstance(now, str) and cut(now) != text else operation
        )

    def _performed(self, operation: Operation[object], outcome: object, at: int) -> None:
        world = self._world
        if operation.traits.lane == "chat":
            self._fence.welcome(operation)
        if isinstance(operation, SendMessage | EditMessage):
            operation = self._with_files(operation)
        if isinstance(outcome, Sent) and outcome.id is not None and isinstance(operation, SendMessage):
            self._newest = max(self._newest, outcome.id)
            world.number_from(outcome.id - 1, world.invoices)
        perform(world, operation, at)

    def _with_files(self, operation: SendMessage | EditMessage) -> SendMessage | EditMessage:
        """Return the message with a file that the platform has: an unknown file becomes an empty upload."""
        content, uploads = operation.content, self._world.uploads
        if not isinstance(content, Media) or uploads.knows(content.source):
            return operation
        name = str(getattr(content.source, "filename", content.filename or "file"))
        described = uploads.add(self._world.letters(), content.kind, name, 0)
        return attrs.evolve(operation, content=attrs.evolve(content, source=described))

    def _without_buttons(self, message_id: MessageId) -> None:
        entry = self._chat.entries.get(message_id)
        if entry is not None:
            self._chat.put(attrs.evolve(entry, inline_keyboard=None))

    # --- people's acts

    def _happened(self, event: Event, at: int) -> None:
        if getattr(event, "chat_id", None) != self._chat_id or not isinstance(event, ByPerson):
            return
        user = self.people.get(None if event.sender is None else event.sender.id)
        if user is None:
            return
        world, chat = self._world, self._chat
        if isinstance(event, Join):
            chat.members.discard(user.id)
            Acting(world, user, at, chat.id).join()
            return
        chat.members.add(user.id)
        match event:
            case Leave():
                Acting(world, user, at, chat.id).leave()
            case Message(content=content):
                self._number_untold()
                keyboard = chat.reply_keyboard
                keys = [] if keyboard is None else [key for row in keyboard.rows for key in row]
                key = next((one for one in keys if one.value == content), None)
                if key is None:
                    Acting(world, user, at, chat.id).say(content, more=beside(event))
                else:
                    Acting(world, user, at, chat.id).tap(key)
            case Press():
                self._pressed(event, user, at)
            case Submission():
                self._submitted(event, user, at)

    def _number_untold(self) -> None:
        """If the next number belongs to a message of the bot, continue people's numbers above `_UNTOLD`."""
        world = self._world
        if world.last_message < _UNTOLD and world.last_message + 1 in self._sent_ids:
            world.number_from(_UNTOLD + world.seq, world.invoices)

    def _pressed(self, press: Press[object], user: User, at: int) -> None:
        entry = self._chat.entries.get(press.message_id)
        buttons = iter(()) if entry is None else entry.buttons()
        labels = (one.text for one in buttons if isinstance(one, CallbackButton) and one.data == press.value)
        self._wait_answer(press.callback_id, press.message_id, user, at)
        clicked = Clicked(self._chat.id, user.id, press.message_id, press.callback_id, next(labels, "?"))
        self._world.record(at, clicked)

    def _submitted(self, submission: Submission, user: User, at: int) -> None:
        entry = self._chat.entries.get(submission.message_id)
        if entry is not None:
            others = tuple(one for one in entry.filled if one[0] != user.id)
            filled = (*others, (user.id, submission.values))
            entry = attrs.evolve(entry, submitted=entry.submitted + 1, filled=filled)
            self._chat.put(entry)
            self._world.record(at, Edited(self._chat.id, entry, anew=False))
        id, values = submission.callback_id, submission.values
        self._world.record(at, Submitted(self._chat.id, user.id, submission.message_id, id, values))
        if submission.callback_id is not None:
            self._wait_answer(submission.callback_id, submission.message_id, user, at)

    def _wait_answer(self, id: CallbackId, message_id: MessageId, user: User, at: int) -> None:
        for before in self._chat.pressed.values():
            before.reply = before.reply or PressReply(before.callback_id, "", alert=False, at=at)
        self._chat.press(Pressed(id, user.id, message_id, at))

    def paid(self, money: Captured, at: int) -> None:
        """Record that a person paid a bill, and that the bot captured the money."""
        world = self._world
        unpaid = [one for one in world.bills if one.amount == money.amount and not one.takings]
        bill = next((one for one in unpaid if one.kind == "invoice" or one.id == money.id), None)
        payer = self.payer(money.payer)
        if bill is None or payer is None:
            return
        payer.wallet[money.currency] -= money.amount
        taking = world.bills.take(bill, payer.id, money.amount, money.currency, at)
        taking.captured_at = at
        for what in ("paid", "captured"):
            moved = MoneyMoved(bill.chat_id, payer.id, what, money.currency, money.amount, bill.id)
            world.record(at, moved)
        for entry in self._chat.in_sight():
            if any(isinstance(one, PayButton) and one.ref_id == money.id for one in entry.buttons()):
                self._chat.put(attrs.evolve(entry, inline_keyboard=None))
                break

    def payer(self, sender: Sender | None) -> User | None:
        """Return the payer: the given sender if known, else the first person who acted."""
        first = next(iter(self.people.values()), None)
        return self.people.get(None if sender is None else sender.id, first)


def events_in(records: Sequence[Record]) -> Sequence[tuple[int, Event]]:
    """Return the events in these records, each with its time."""
    return [(time_of(record), event) for record in records for event in events_of(record)]


def events_of(record: Record) -> Sequence[Event]:
    if record[0] == NOTED and str(record[3]).startswith(_DRAIN):
        return [cast("Event", CODEC.value_of(node)) for node in record[4]]
    event = event_of(record)
    return [] if event is None else [event]


def sent_in(record: Record) -> Sent | None:
    """Return the platform's answer in the record of a sent message; None for other records."""
    if record[0] != DONE or not isinstance(record[5], dict) or "sent" not in record[5]:
        return None
    return cast("Sent", CODEC.value_of(record[5]))

"""The platform's world: chats, messages, money; what a bot's operations do to it.

Pure: the moment comes in as `now` (wall milliseconds), chance as a `random.Random`; nothing here waits or
opens a file. Two doors lead in: `World.perform` for the bot, and the functions of `acts` for people.

Errors are answers (`Refusal`), as on the platform. Statuses and names follow interface section 7; where it
is silent, `Switches` says what happens.
"""

from __future__ import annotations

import random
import string
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, final

import attrs

from ..wire.content import Blob, Descriptor, Media, MediaKind
from ..wire.ids import (
    CallbackId,
    ChatId,
    GroupName,
    InvoiceId,
    MessageId,
    PhoneNumber,
    Recipient,
    as_recipient,
)
from ..wire.markup import PayButton
from ..wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from ..wire.results import Answer, InvoiceCreated, PaymentState, Sent
from .bills import Bill, Till
from .chats import Chat, Entry, Reply
from .consequences import (
    Answered,
    Change,
    ChargeRequested,
    Consequence,
    Deleted,
    Edited,
    InvoiceShown,
    MoneyMoved,
    Shown,
    TypingSeen,
)
from .games import Games
from .people import ImpossibleActError, People, User
from .switches import Switches
from .uploads import Uploads

_FIRST_CHAT: Final = 13_601
_FIRST_GROUP: Final = 700_001
_FIRST_INVOICE: Final = 50_001
_LETTERS: Final = string.ascii_letters + string.digits
# The newest changes are kept for whoever follows the log; one who is slower than this has missed some.
LOG: Final = 20_000


@final
@attrs.frozen
class Refusal:
    """The platform says no: a status, and the words of the error body."""

    status: int
    reason: str


Result: TypeAlias = Sent | Descriptor | InvoiceCreated | PaymentState | Answer | None


def invalid(parameter: str) -> Refusal:
    """A parameter that is not valid, as interface section 7 names it."""
    return Refusal(400, f"{parameter} is not valid")


@final
class World:
    """Everything that the platform knows. One bot lives in it.

    Attributes:
        switches: may be replaced at any time.
        base_url: where uploads are said to be served.
    """

    def __init__(
        self,
        *,
        chance: random.Random,
        switches: Switches | None = None,
        base_url: str = "http://127.0.0.1:8081",
    ) -> None:
        self.switches = switches or Switches()
        self.people = People()
        self.till = Till()
        self.uploads = Uploads(base_url)
        self.games = Games()
        self._chance = chance
        self._chats: dict[ChatId, Chat] = {}
        self._groups: dict[GroupName, Chat] = {}
        self._log: deque[Change] = deque(maxlen=LOG)
        self._seq = 0
        self._last_message = 0
        self._invoices = 0

    # --- what is there

    @property
    def base_url(self) -> str:
        """The address in front of uploads and top-up pages."""
        return self.uploads.base_url

    @base_url.setter
    def base_url(self, url: str) -> None:
        self.uploads.base_url = url

    @property
    def seq(self) -> int:
        """The number of the newest change."""
        return self._seq

    def changes(self, after: int) -> Sequence[Change]:
        """The changes behind `after`, oldest first, as far as they are still kept."""
        missing = min(self._seq - after, len(self._log))
        return [self._log[index] for index in range(len(self._log) - missing, len(self._log))]

    def chats(self) -> Iterator[Chat]:
        """Every chat, private ones and groups."""
        return iter(self._chats.values())

    def chat(self, chat_id: ChatId) -> Chat:
        """The chat of this id.

        Raises:
            ImpossibleActError: there is none.
        """
        if (chat := self._chats.get(chat_id)) is None:
            raise ImpossibleActError("there is no chat of this id")
        return chat

    def add_user(
        self,
        name: str,
        *,
        username: str | None = None,
        phone: str | None = None,
        irr: int = 0,
        coin: int = 0,
    ) -> User:
        """Make a person who hasn't joined yet."""
        chat = Chat(ChatId(_FIRST_CHAT + len(self._chats)), None)
        user = self.people.add(name, chat.id, username=username, phone=phone, irr=irr, coin=coin)
        self._chats[chat.id] = chat
        return user

    def add_group(self, name: str) -> Chat:
        """Make a group without members; the bot is in it.

        Raises:
            ImpossibleActError: the name is taken.
        """
        key = GroupName("@" + name.strip("@"))
        if key in self._groups:
            raise ImpossibleActError("there is a group of this name already")
        chat = Chat(ChatId(_FIRST_GROUP + len(self._groups)), key)
        self._chats[chat.id] = self._groups[key] = chat
        return chat

    # --- what acts need

    def record(self, at: int, *consequences: Consequence) -> None:
        """Write into the log."""
        for consequence in consequences:
            self._seq += 1
            self._log.append(Change(self._seq, at, consequence))

    def next_message_id(self) -> MessageId:
        """A fresh message id, unique in the world."""
        self._last_message += 1
        return MessageId(self._last_message)

    def letters(self) -> str:
        """Sixteen letters and digits, as callback ids look."""
        return "".join(self._chance.choices(_LETTERS, k=16))

    def catch_up(self, now: int) -> None:
        """Let what fell due happen: uncaptured money goes back."""
        for bill, taking, due in self.till.lapse(now, self.switches.verify_window):
            self.people.get(taking.payer).wallet[taking.currency] += taking.amount
            self.record(
                due,
                MoneyMoved(bill.chat_id, taking.payer, "refunded", taking.currency, taking.amount, bill.id),
            )

    # --- the bot's door

    def perform(self, operation: Operation[object], now: int) -> tuple[Result | Refusal, Sequence[Change]]:
        """Do what the bot asks; returns the answer, and what changed."""
        before = self._seq
        self.catch_up(now)
        answer = self._answer(operation, now)
        return answer, self.changes(before)

    def _answer(self, operation: Operation[object], now: int) -> Result | Refusal:
        match operation:
            case SendMessage():
                return self._send(operation, now)
            case EditMessage():
                return self._edit(operation, now)
            case DeleteMessage():
                return self._delete(operation, now)
            case SendAction():
                return self._type(operation, now)
            case AnswerCallback():
                return self._answer_callback(operation, now)
            case Upload(kind=kind, source=source):
                return self._upload(kind, source)
            case CreateInvoice():
                return self._invoice(operation, now)
            case VerifyInvoice(chat_id=chat_id, invoice_id=invoice_id):
                return self._verify(self.till.invoice(invoice_id), chat_id, now)
            case VerifyPayment(chat_id=chat_id, ref_id=ref_id):
                return self._verify(self.till.payment(ref_id), chat_id, now)
            case InquireInvoice(chat_id=chat_id, invoice_id=invoice_id):
                return self._inquire(self.till.invoice(invoice_id), chat_id)
            case InquirePayment(chat_id=chat_id, ref_id=ref_id):
                return self._inquire(self.till.payment(ref_id), chat_id)
            case _:
                return self._outside(operation, now)

    def _reached(self, recipient: Recipient) -> Chat | Refusal:
        chat: Chat | None = None
        match as_recipient(recipient):
            case int() as chat_id:
                chat = self._chats.get(ChatId(chat_id))
            case str() as phone if phone.startswith("+"):
                user = self.people.by_phone(PhoneNumber(phone))
                chat = self._chats[user.chat_id] if user is not None else None
            case str() as name:
                chat = self._groups.get(GroupName("@" + name.strip("@")))
        if chat is None or (chat.name is None and not chat.members):
            return Refusal(self.switches.unknown_chat_status, "chat_id is not valid")
        return chat

    def _send(self, operation: SendMessage, now: int) -> Sent | Refusal:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        content = operation.content
        if isinstance(content, Media) and not self.uploads.knows(content.source):
            return invalid("data")
        entry = Entry(
            self.next_message_id(),
            None,
            content,
            now,
            operation.reply_keyboard,
            operation.inline_keyboard,
            operation.form,
        )
        chat.put(entry)
        if (keyboard := operation.reply_keyboard) is not None:
            if keyboard.rows:
                chat.reply_keyboard = keyboard
            elif self.switches.empty_keyboard_removes:
                chat.reply_keyboard = None
        chat.typing_until = 0
        self._offer(chat, entry)
        self.record(now, Shown(chat.id, entry))
        return Sent(operation.chat_id, entry.id)

    def _offer(self, chat: Chat, entry: Entry) -> None:
        for button in entry.buttons():
            if isinstance(button, PayButton):
                desc = button.desc or ""
                self.till.add(Bill("payment", button.ref_id, chat.id, button.amount, button.currency, desc))

    def _edit(self, operation: EditMessage, now: int) -> Refusal | None:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        entry = chat.entries.get(operation.message_id)
        content = operation.content
        if entry is None or entry.deleted or entry.author is not None:
            return invalid("data")
        if content is None and self.switches.edit_needs_data:
            return invalid("data")
        if isinstance(content, Media) and not self.uploads.knows(content.source):
            return invalid("data")
        keyboard = operation.inline_keyboard
        if keyboard is None and not self.switches.edit_drops_keyboard:
            keyboard = entry.inline_keyboard
        new = content if content is not None else entry.content
        edited = attrs.evolve(entry, content=new, inline_keyboard=keyboard, edited_at=now)
        chat.put(edited)
        self._offer(chat, edited)
        self.record(now, Edited(chat.id, edited, anew=new != entry.content))
        return None

    def _delete(self, operation: DeleteMessage, now: int) -> Refusal | None:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        entry = chat.entries.get(operation.message_id)
        # What isn't there is deleted already: the platform was seen to answer 200.
        if entry is None or entry.deleted:
            return None
        if entry.author is not None:
            return invalid("data")
        chat.put(attrs.evolve(entry, deleted=True))
        self.record(now, Deleted(chat.id, entry.id))
        return None

    def _type(self, operation: SendAction, now: int) -> Refusal | None:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        chat.typing_until = now + self.switches.typing_life
        self.record(now, TypingSeen(chat.id, chat.typing_until))
        return None

    def _answer_callback(self, operation: AnswerCallback, now: int) -> Refusal | None:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        if (pressed := chat.pressed.get(CallbackId(operation.callback_id))) is None:
            return invalid("data")
        pressed.reply = Reply(pressed.callback_id, operation.text, operation.show_alert, now)
        self.record(now, Answered(chat.id, pressed.by, pressed.reply))
        return None

    def _upload(self, kind: MediaKind, source: object) -> Descriptor | Refusal:
        # Only bytes can come in here: reading a file is the business of whoever may wait.
        if not isinstance(source, Blob):
            return Refusal(500, "the file could not be read")
        return self.uploads.add(self.letters(), kind, source.filename, len(source.data))

    def _invoice(self, operation: CreateInvoice, now: int) -> InvoiceCreated | Refusal:
        if isinstance(chat := self._reached(operation.chat_id), Refusal):
            return chat
        invoice_id = InvoiceId(str(_FIRST_INVOICE + self._invoices))
        self._invoices += 1
        life = self.switches.invoice_life if operation.expire_time is None else operation.expire_time * 1_000
        currency = operation.currency or "IRR"
        self.till.add(
            Bill(
                "invoice", invoice_id, chat.id, operation.amount, currency, operation.description, now + life
            )
        )
        self.record(now, InvoiceShown(chat.id, invoice_id))
        return InvoiceCreated(invoice_id)

    def _verify(self, bill: Bill | None, chat_id: ChatId, now: int) -> PaymentState | Refusal:
        if isinstance(refusal := self._unknown(bill, chat_id), Refusal | PaymentState):
            return refusal
        state, captured = refusal.verify(now, self.switches)
        if captured is not None:
            moved = MoneyMoved(
                refusal.chat_id, captured.payer, "captured", captured.currency, captured.amount, refusal.id
            )
            self.record(now, moved)
        return state

    def _inquire(self, bill: Bill | None, chat_id: ChatId) -> PaymentState | Refusal:
        known = self._unknown(bill, chat_id)
        return known.inquire(self.switches) if isinstance(known, Bill) else known

    def _unknown(self, bill: Bill | None, chat_id: ChatId) -> Bill | PaymentState | Refusal:
        if chat_id not in self._chats:
            return invalid("chat_id")
        if bill is not None and bill.chat_id == chat_id:
            return bill
        return invalid("ref_id") if self.switches.unknown_ref_status == 400 else PaymentState(False, None)

    def _outside(self, operation: Operation[object], now: int) -> Answer | Refusal:
        if not self.switches.undocumented:
            return Refusal(404, "not found")
        answer = self.games.perform(operation)
        if answer is None:
            return Refusal(404, "not found")
        if (asked := self.games.charge_request(operation)) is not None:
            self.record(now, ChargeRequested(*asked))
        return answer

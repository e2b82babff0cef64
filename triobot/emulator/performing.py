"""The bot's operations on the world: one function for each operation (interface section 4). Pure.

Errors are answers (`Refusal`), as on the platform. Statuses and parameter names follow interface section 7.
Where the interface is silent, `Switches` decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, final

import attrs

from ..base.frozen import guarded
from ..wire.content import Blob, Descriptor, Media, MediaKind, encode_content
from ..wire.ids import ChatId, MessageId, Recipient
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
from ..wire.results import InvoiceCreated, PaymentState, Sent
from ..wire.undocumented import (
    Answer,
    GetGameConfig,
    GetGameData,
    GetLeaderBoard,
    PutGameData,
    RequestWalletCharge,
    SendGameEvent,
)
from .bills import Bill
from .chats import (
    Change,
    ChargeRequested,
    ChatMessage,
    Deleted,
    Edited,
    InvoiceShown,
    MoneyMoved,
    PlatformChat,
    PressAnswered,
    PressReply,
    Shown,
    TypingSeen,
)
from .world import World


@final
@guarded
class Refusal:
    """The platform's refusal: an HTTP status, and the text of the error body."""

    status: int
    reason: str


Result: TypeAlias = Sent | Descriptor | InvoiceCreated | PaymentState | Answer | None


def invalid(parameter: str) -> Refusal:
    """Return the refusal of a parameter in the words of interface section 7."""
    return Refusal(400, f"{parameter} is not valid")


def perform(
    world: World, operation: Operation[object], now: int
) -> tuple[Result | Refusal, Sequence[Change]]:
    """Perform an operation of the bot; return the answer and the changes."""
    before = world.seq
    world.catch_up(now)
    answer = _answer(world, operation, now)
    return answer, world.changes(before)


def _answer(world: World, operation: Operation[object], now: int) -> Result | Refusal:
    match operation:
        case SendMessage():
            return _send(world, operation, now)
        case EditMessage():
            return _edit(world, operation, now)
        case DeleteMessage():
            return _delete(world, operation, now)
        case SendAction():
            return _type(world, operation, now)
        case AnswerCallback():
            return _answer_callback(world, operation, now)
        case Upload(kind=kind, source=source):
            return _upload(world, kind, source)
        case CreateInvoice():
            return _invoice(world, operation, now)
        case VerifyInvoice(chat_id=chat_id, invoice_id=invoice_id):
            return _verify(world, world.bills.invoice(invoice_id), chat_id, now)
        case VerifyPayment(chat_id=chat_id, ref_id=ref_id):
            return _verify(world, world.bills.payment(ref_id), chat_id, now)
        case InquireInvoice(chat_id=chat_id, invoice_id=invoice_id):
            return _inquire(world, world.bills.invoice(invoice_id), chat_id)
        case InquirePayment(chat_id=chat_id, ref_id=ref_id):
            return _inquire(world, world.bills.payment(ref_id), chat_id)
        case _:
            return _outside(world, operation, now)


def _reached(world: World, recipient: Recipient) -> PlatformChat | Refusal:
    if (chat := world.find(recipient)) is None:
        return Refusal(world.switches.unknown_chat_status, "chat_id is not valid")
    return chat


def _send(world: World, operation: SendMessage, now: int) -> Sent | Refusal:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    content = operation.content
    if isinstance(content, Media) and not world.uploads.knows(content.source):
        return invalid("data")
    entry = ChatMessage(
        world.next_message_id(),
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
        elif world.switches.empty_keyboard_removes:
            chat.reply_keyboard = None
    chat.typing_until = 0
    _offer(world, chat, entry)
    world.record(now, Shown(chat.id, entry))
    return Sent(operation.chat_id, entry.id)


def _offer(world: World, chat: PlatformChat, entry: ChatMessage) -> None:
    for button in entry.buttons():
        if isinstance(button, PayButton):
            desc = button.desc or ""
            world.bills.add(Bill("payment", button.ref_id, chat.id, button.amount, button.currency, desc))


def _edit(world: World, operation: EditMessage, now: int) -> Refusal | None:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    entry = chat.entries.get(operation.message_id)
    content = operation.content
    if entry is None or entry.deleted or entry.author is not None:
        return invalid("data")
    if content is None and world.switches.edit_needs_data:
        return invalid("data")
    if isinstance(content, Media) and not world.uploads.knows(content.source):
        return invalid("data")
    keyboard = operation.inline_keyboard
    if keyboard is None and not world.switches.edit_drops_keyboard:
        keyboard = entry.inline_keyboard
    new = content if content is not None else entry.content
    anew = new != entry.content
    edited = attrs.evolve(
        entry, content=new, inline_keyboard=keyboard, edited_at=now if anew else entry.edited_at
    )
    chat.put(edited)
    _offer(world, chat, edited)
    world.record(now, Edited(chat.id, edited, anew=anew))
    return None


def _delete(world: World, operation: DeleteMessage, now: int) -> Refusal | None:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    entry = chat.entries.get(operation.message_id)
    # A missing message counts as deleted: the real platform answered 200.
    if entry is None or entry.deleted:
        return None
    if entry.author is not None:
        return invalid("data")
    chat.put(attrs.evolve(entry, deleted=True))
    world.record(now, Deleted(chat.id, entry.id))
    return None


def _type(world: World, operation: SendAction, now: int) -> Refusal | None:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    chat.typing_until = now + world.switches.typing_life
    world.record(now, TypingSeen(chat.id, chat.typing_until))
    return None


def _answer_callback(world: World, operation: AnswerCallback, now: int) -> Refusal | None:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    if (pressed := chat.pressed.get(operation.callback_id)) is None:
        return invalid("data")
    pressed.reply = PressReply(pressed.callback_id, operation.text, operation.show_alert, now)
    world.record(now, PressAnswered(chat.id, pressed.by, pressed.reply))
    return None


def _upload(world: World, kind: MediaKind, source: object) -> Descriptor | Refusal:
    # Only bytes are accepted here: reading a file would block.
    if not isinstance(source, Blob):
        return Refusal(500, "the file could not be read")
    return world.uploads.add(world.letters(), kind, source.filename, len(source.data))


def _invoice(world: World, operation: CreateInvoice, now: int) -> InvoiceCreated | Refusal:
    if isinstance(chat := _reached(world, operation.chat_id), Refusal):
        return chat
    invoice_id = world.next_invoice_id()
    life = world.switches.invoice_life if operation.expire_time is None else operation.expire_time * 1_000
    currency = operation.currency or "IRR"
    world.bills.add(
        Bill("invoice", invoice_id, chat.id, operation.amount, currency, operation.description, now + life)
    )
    world.record(now, InvoiceShown(chat.id, invoice_id))
    return InvoiceCreated(invoice_id)


def _verify(world: World, bill: Bill | None, chat_id: ChatId, now: int) -> PaymentState | Refusal:
    if isinstance(refusal := _unknown(world, bill, chat_id), Refusal | PaymentState):
        return refusal
    state, captured = refusal.verify(now, world.switches)
    if captured is not None:
        moved = MoneyMoved(
            refusal.chat_id, captured.payer, "captured", captured.currency, captured.amount, refusal.id
        )
        world.record(now, moved)
    return state


def _inquire(world: World, bill: Bill | None, chat_id: ChatId) -> PaymentState | Refusal:
    known = _unknown(world, bill, chat_id)
    return known.inquire(world.switches) if isinstance(known, Bill) else known


def _unknown(world: World, bill: Bill | None, chat_id: ChatId) -> Bill | PaymentState | Refusal:
    if not world.has_chat(chat_id):
        return invalid("chat_id")
    if bill is not None and bill.chat_id == chat_id:
        return bill
    return invalid("ref_id") if world.switches.unknown_ref_status == 400 else PaymentState(False, None)


def _outside(world: World, operation: Operation[object], now: int) -> Answer | Refusal:
    if not world.switches.undocumented:
        return Refusal(404, "not found")
    data = world.game_data
    match operation:
        case RequestWalletCharge(chat_id=chat_id, desc=desc):
            world.record(now, ChargeRequested(chat_id, desc))
            return Answer({})
        case SendGameEvent():
            return Answer({})
        case GetGameData(chat_id=chat_id, type=kind):
            return Answer({"data": data.get((chat_id, kind))})
        case PutGameData(chat_id=chat_id, type=kind):
            if operation.force or (chat_id, kind) not in data or kind != "high_score":
                data[chat_id, kind] = operation.data
            return Answer({})
        case GetGameConfig():
            return Answer({"configs": {}})
        case GetLeaderBoard():
            return Answer({"topLeaders": [], "currentPlayer": {}})
        case _:
            return Refusal(404, "not found")


def kind_of(world: World, recipient: Recipient, message_id: MessageId) -> str:
    """Return the type of an edited message's content; ``text`` if there is no such message."""
    chat = world.find(recipient)
    entry = chat.entries.get(message_id) if chat is not None else None
    return encode_content(entry.content)[0] if entry is not None else "text"

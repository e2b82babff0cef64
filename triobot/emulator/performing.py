"""The bot's operations on the world: one function for each operation (interface section 4). Pure.

Errors are answers (`Refusal`), as on the platform. Statuses and parameter names follow interface section 7.
Where the interface is silent, `Switches` decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import attrs

from ..base.frozen import guarded
from ..wire.content import Blob, Descriptor, Media, encode_content
from ..wire.ids import MessageId, Recipient
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


@final
class _UnperformedError(Exception):
    """The operation is refused with a `Refusal`."""


Result: TypeAlias = Sent | Descriptor | InvoiceCreated | PaymentState | Answer | None


def invalid(parameter: str) -> Refusal:
    """Return the refusal of a parameter in the words of interface section 7."""
    return Refusal(400, f"{parameter} is not valid")


def _reached(world: World, recipient: Recipient) -> PlatformChat:
    if (chat := world.find(recipient)) is None:
        raise _UnperformedError(Refusal(world.switches.unknown_chat_status, "chat_id is not valid"))
    return chat


def _send(world: World, operation: SendMessage, now: int) -> Sent | Refusal:
    chat = _reached(world, operation.chat_id)
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
    chat = _reached(world, operation.chat_id)
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
    chat = _reached(world, operation.chat_id)
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
    chat = _reached(world, operation.chat_id)
    chat.typing_until = now + world.switches.typing_life
    world.record(now, TypingSeen(chat.id, chat.typing_until))
    return None


def _answer_callback(world: World, operation: AnswerCallback, now: int) -> Refusal | None:
    chat = _reached(world, operation.chat_id)
    if (pressed := chat.pressed.get(operation.callback_id)) is None:
        return invalid("data")
    pressed.reply = PressReply(pressed.callback_id, operation.text, operation.show_alert, now)
    world.record(now, PressAnswered(chat.id, pressed.by, pressed.reply))
    return None


def _upload(world: World, operation: Upload, now: int) -> Descriptor | Refusal:
    # Only bytes are accepted here: reading a file would block.
    if not isinstance(source := operation.source, Blob):
        return Refusal(500, "the file could not be read")
    return world.uploads.add(world.letters(), operation.kind, source.filename, len(source.data))


def _invoice(world: World, operation: CreateInvoice, now: int) -> InvoiceCreated | Refusal:
    chat = _reached(world, operation.chat_id)
    invoice_id = world.next_invoice_id()
    life = world.switches.invoice_life if operation.expire_time is None else operation.expire_time * 1_000
    currency = operation.currency or "IRR"
    world.bills.add(
        Bill("invoice", invoice_id, chat.id, operation.amount, currency, operation.description, now + life)
    )
    world.record(now, InvoiceShown(chat.id, invoice_id))
    return InvoiceCreated(invoice_id)


def _verify(world: World, operation: VerifyInvoice | VerifyPayment, now: int) -> PaymentState:
    if (bill := _bill(world, operation)) is None:
        return PaymentState(False, None)
    state, captured = bill.verify(now, world.switches)
    if captured is not None:
        payer, currency, amount = captured.payer, captured.currency, captured.amount
        world.record(now, MoneyMoved(bill.chat_id, payer, "captured", currency, amount, bill.id))
    return state


def _inquire(world: World, operation: InquireInvoice | InquirePayment, now: int) -> PaymentState:
    bill = _bill(world, operation)
    return PaymentState(False, None) if bill is None else bill.inquire(world.switches)


def _bill(
    world: World, operation: VerifyInvoice | VerifyPayment | InquireInvoice | InquirePayment
) -> Bill | None:
    """Return the bill; `Switches.unknown_ref_status` decides whether an unknown bill is None or an error."""
    if not world.has_chat(operation.chat_id):
        raise _UnperformedError(invalid("chat_id"))
    if isinstance(operation, VerifyInvoice | InquireInvoice):
        bill = world.bills.invoice(operation.invoice_id)
    else:
        bill = world.bills.payment(operation.ref_id)
    if bill is not None and bill.chat_id == operation.chat_id:
        return bill
    if world.switches.unknown_ref_status == 400:
        raise _UnperformedError(invalid("ref_id"))
    return None


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


_PERFORMED: Final[Mapping[type, Callable[[World, Any, int], Result | Refusal]]] = {
    SendMessage: _send,
    EditMessage: _edit,
    DeleteMessage: _delete,
    SendAction: _type,
    AnswerCallback: _answer_callback,
    Upload: _upload,
    CreateInvoice: _invoice,
    VerifyInvoice: _verify,
    VerifyPayment: _verify,
    InquireInvoice: _inquire,
    InquirePayment: _inquire,
}


def perform(
    world: World, operation: Operation[object], now: int
) -> tuple[Result | Refusal, Sequence[Change]]:
    """Perform an operation of the bot; return the answer and the changes."""
    before = world.seq
    world.catch_up(now)
    try:
        answer = _PERFORMED.get(type(operation), _outside)(world, cast("Any", operation), now)
    except _UnperformedError as refused:
        [answer] = refused.args
    return answer, world.changes(before)


def kind_of(world: World, recipient: Recipient, message_id: MessageId) -> str:
    """Return the type of an edited message's content; ``text`` if there is no such message."""
    chat = world.find(recipient)
    entry = chat.entries.get(message_id) if chat is not None else None
    return encode_content(entry.content)[0] if entry is not None else "text"

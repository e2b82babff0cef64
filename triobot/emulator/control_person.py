"""The control API's acts of one person; the routes and their keys are in `control`."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NoReturn, cast, final

import trio

from ..wire.content import MEDIA, Contact, Location, MediaKind
from ..wire.encode import encode_event_data
from ..wire.events import Event, Press
from ..wire.ids import ChatId, InvoiceId, MessageId
from ..wire.markup import InlineButton, Key, PayButton
from ..wire.rules import JsonValue
from . import acts, paying
from .asked import Asked, BadAskError, Given, as_number
from .chats import Chat, Entry
from .exchange import Exchange
from .people import ImpossibleActError, User
from .views import JsonObject, view_chat

LONGEST_WAIT: Final = 60
_MOST_PRESSES: Final = 10
# Labels of old messages can be pressed, too, but whoever has mistyped one rarely means them.
_MOST_NAMED: Final = 20
# How a payment ends.
_ENDS: Final = ("code", "taken", "amount")


def _chat_of(asked: Asked) -> ChatId | None:
    value = asked.optional_integer("chat")
    return ChatId(value) if value is not None else None


def _message_of(asked: Asked) -> MessageId | None:
    value = asked.optional_integer("message")
    return MessageId(value) if value is not None else None


def _place_of(asked: Asked) -> Location:
    if asked.optional_text("lat") is None and asked.optional_text("long") is None:
        return acts.HOME
    return Location(asked.text("lat"), asked.text("long"), asked.optional_text("desc") or "")


def _button(chat: Chat, asked: Asked) -> tuple[Entry, InlineButton] | None:
    """The button of this label; with an index, that one of the message, where two have the same label."""
    label, message = asked.optional_text("label") or "", _message_of(asked)
    index = asked.optional_integer("index")
    if index is None or message is None:
        return chat.button(label, message)
    entry = chat.entries.get(message)
    buttons = list(entry.buttons()) if entry is not None else []
    if entry is None or not 0 <= index < len(buttons) or buttons[index].text != label:
        return None
    return entry, buttons[index]


@final
class PersonControl:
    """What one person does."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world

    def routes(self) -> Mapping[str, Callable[[User, Asked], Given]]:
        return {
            "join": self._join,
            "leave": self._leave,
            "say": self._say,
            "media": self._media,
            "share-contact": self._share_contact,
            "share-location": self._share_location,
            "press": self._press,
            "tap": self._tap,
            "submit": self._submit,
            "pay": self._pay,
            "top-up": self._top_up,
        }

    def _do(self, what: Callable[[int], tuple[Event, ...]]) -> JsonObject:
        events = self._exchange.act(what)
        kinds: list[JsonValue] = [encode_event_data(event)[0] for event in events]
        presses: list[JsonValue] = [event.callback_id for event in events if isinstance(event, Press)]
        return {"seq": self._world.seq, "events": kinds, "callback_ids": presses}

    def _join(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat",))
        return self._do(lambda now: acts.join(self._world, user, now, chat=_chat_of(asked)))

    def _leave(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat",))
        return self._do(lambda now: acts.leave(self._world, user, now, chat=_chat_of(asked)))

    def _say(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("text", "chat"))
        text = asked.text("text")
        if not text:
            raise BadAskError("'text' must not be empty")
        return self._do(lambda now: acts.say(self._world, user, text, now, chat=_chat_of(asked)))

    async def _media(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("kind", "filename", "base64", "caption", "duration", "chat"))
        kind = cast("MediaKind", asked.text("kind"))
        if kind not in MEDIA:
            raise BadAskError(f"'kind' must be one of {', '.join(MEDIA)}")
        try:
            data = base64.b64decode(asked.text("base64"), validate=True)
        except (binascii.Error, ValueError):
            raise BadAskError("'base64' must be base64") from None
        chat, caption = _chat_of(asked), asked.optional_text("caption") or ""
        acts.chat_of(self._world, user, chat)
        duration = asked.seconds("duration") if "duration" in asked.values() else 0
        descriptor = await self._exchange.upload(kind, asked.text("filename"), io.BytesIO(data), duration)
        content = MEDIA[kind](descriptor, caption)
        return self._do(lambda now: acts.say(self._world, user, content, now, chat=chat))

    def _share_contact(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("phone", "name", "chat"))
        phone = asked.optional_text("phone")
        contact = Contact(phone or user.phone, asked.optional_text("name") or ("" if phone else user.name))
        return self._do(lambda now: acts.say(self._world, user, contact, now, chat=_chat_of(asked)))

    def _share_location(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("lat", "long", "desc", "chat"))
        place = _place_of(asked)
        return self._do(lambda now: acts.say(self._world, user, place, now, chat=_chat_of(asked)))

    def _press(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "message", "index", "times", "chat"))
        label, times = asked.text("label"), asked.integer("times", 1)
        if not 1 <= times <= _MOST_PRESSES:
            raise BadAskError(f"'times' must be from 1 to {_MOST_PRESSES}")

        def press(now: int) -> tuple[Event, ...]:
            chat = acts.chat_of(self._world, user, _chat_of(asked))
            found = _button(chat, asked)
            by_index = asked.optional_integer("index") is not None
            if found is None and not by_index and (key := chat.key(label)) is not None:
                return tuple(
                    event
                    for _ in range(times)
                    for event in acts.tap(self._world, user, key, now, chat=chat.id)
                )
            if found is None:
                _nothing(label, chat)
            entry, button = found
            return tuple(
                event
                for _ in range(times)
                for event in acts.press(self._world, user, entry.id, button, now, chat=chat.id)
            )

        return self._do(press)

    def _tap(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "value", "lat", "long", "desc", "chat"))
        key, place = Key(asked.text("value"), asked.text("label")), _place_of(asked)
        return self._do(lambda now: acts.tap(self._world, user, key, now, chat=_chat_of(asked), place=place))

    def _submit(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("values", "message", "chat"))
        values, message = asked.texts("values"), _message_of(asked)
        return self._do(
            lambda now: acts.submit(self._world, user, values, now, message_id=message, chat=_chat_of(asked))
        )

    def _pay(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "message", "invoice", "newest_invoice", "index", *_ENDS, "chat"))
        code, amount = asked.optional_integer("code"), asked.optional_integer("amount")
        taken, invoice = asked.flag("taken"), asked.optional_text("invoice")

        def pay(now: int) -> tuple[Event, ...]:
            world, chat = self._world, _chat_of(asked)
            if invoice is not None or asked.flag("newest_invoice"):
                bill = InvoiceId(invoice) if invoice is not None else paying.newest_invoice(world, user, now)
                return paying.pay_invoice(world, user, bill, now, code=code, taken=taken, amount=amount)
            message, button = self._pay_button(user, asked)
            return paying.pay(
                world, user, message, button, now, chat=chat, code=code, taken=taken, amount=amount
            )

        return self._do(pay)

    def _pay_button(self, user: User, asked: Asked) -> tuple[MessageId, PayButton]:
        chat, label = _chat_of(asked), asked.optional_text("label")
        if label is None:
            return paying.newest_pay_button(self._world, user, chat=chat, message_id=_message_of(asked))
        there = acts.chat_of(self._world, user, chat)
        found = _button(there, asked)
        if found is None:
            _nothing(label, there)
        entry, button = found
        if not isinstance(button, PayButton):
            raise ImpossibleActError("this button is not paid")
        return entry.id, button

    def _top_up(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("IRR", "coin"))
        irr, coin = asked.integer("IRR", 0), asked.integer("coin", 0)
        return self._do(lambda now: acts.top_up(self._world, user, now, irr=irr, coin=coin))

    async def chat(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat", "after", "wait"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        chat = self._world.chat(ChatId(given.get("chat", user.chat_id)))
        if user.id not in chat.members and chat.id != user.chat_id:
            raise ImpossibleActError("not a member of this chat")
        after = seen = given.get("after", self._world.seq)
        with trio.move_on_after(min(given.get("wait", 0), LONGEST_WAIT)):
            while not any(change.what.chat_id == chat.id for change in self._world.changes(seen)):
                seen = max(seen, self._world.seq)
                await self._exchange.wait_change(seen)
        return view_chat(self._world, chat, self._exchange.clock.now(), after=after)


def _nothing(label: str, chat: Chat) -> NoReturn:
    there = [repr(one) for one in islice(dict.fromkeys(chat.labels()), _MOST_NAMED)]
    what = f"what there is to press: {', '.join(there)}" if there else "there is nothing to press"
    raise ImpossibleActError(f"there is no button {label!r}; {what}")

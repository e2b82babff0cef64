"""The platform's world: people, chats, money, and a log of the changes.

Pure: time is the argument `now` (wall milliseconds), and random values come from the argument `chance`.
This module neither waits nor opens a file. The module `performing` changes the world when the bot sends an
operation, and the module `acts` when a person acts.
"""

from __future__ import annotations

import random
import string
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, final

import attrs

from ..errors import TriobotError
from ..wire.events import Sender
from ..wire.ids import ChatId, GroupName, InvoiceId, MessageId, PhoneNumber, Recipient, SenderId, as_recipient
from ..wire.markup import Currency
from .bills import Bills
from .blobs import UploadedFiles
from .chats import Change, Consequence, MoneyMoved, PlatformChat, is_line
from .faults import Switches

_FIRST_USER = 1001
_FIRST_CHAT: Final = 13_601
_FIRST_GROUP: Final = 700_001
_FIRST_INVOICE: Final = 50_001
_LETTERS: Final = string.ascii_letters + string.digits
# Maximum number of changes in the log. A reader that is further behind misses the older changes.
LOG: Final = 20_000


class ImpossibleActError(TriobotError):
    """The app doesn't offer this act: for example, the person isn't a member, or the button is gone."""


@final
class NotShownError(ImpossibleActError):
    """The requested button, bill or form isn't on the screen, but may still appear."""


@final
@attrs.define(eq=False)
class User:
    """A person with a phone, and a wallet in rials and in coin."""

    id: SenderId
    name: str = attrs.field(repr=False)
    username: str = attrs.field(repr=False)
    phone: PhoneNumber = attrs.field(repr=False)
    chat_id: ChatId
    wallet: dict[Currency, int] = attrs.field(factory=lambda: {"IRR": 0, "coin": 0})

    def sender(self) -> Sender:
        """Return this person as the sender of an event."""
        return Sender(self.id, self.name, self.username)


@final
class People:
    """All people, by id."""

    def __init__(self) -> None:
        self._by_id: dict[SenderId, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(self._by_id.values())

    def add(self, user: User) -> None:
        self._by_id[user.id] = user

    def get(self, user_id: SenderId) -> User:
        """Return the person of this id.

        Raises:
            ImpossibleActError: there is no such person.
        """
        if (user := self._by_id.get(user_id)) is None:
            raise ImpossibleActError("there is nobody of this id")
        return user

    def by_phone(self, phone: PhoneNumber) -> User | None:
        return next((user for user in self if user.phone == phone), None)


@final
class World:
    """All data of the platform, for one bot.

    Attributes:
        switches: behaviour of the platform; may be replaced at any time.
        game_data: game data, by chat and type.
        seq: number of the newest change.
        last_message: number of the newest message.
        invoices: number of created invoices.
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
        self.bills = Bills()
        self.uploads = UploadedFiles(base_url)
        self.game_data: dict[tuple[ChatId, str], str] = {}
        self._chance = chance
        self._chats: dict[ChatId, PlatformChat] = {}
        self._groups: dict[GroupName, PlatformChat] = {}
        self._log: deque[Change] = deque(maxlen=LOG)
        self.seq = 0
        self.last_message = 0
        self.invoices = 0

    # --- reading

    def changes(self, after: int) -> Sequence[Change]:
        """Return the changes with numbers above `after` that are still kept, oldest first."""
        missing = min(self.seq - after, len(self._log))
        return [self._log[index] for index in range(len(self._log) - missing, len(self._log))]

    def chats(self) -> Iterator[PlatformChat]:
        return iter(self._chats.values())

    def chat(self, chat_id: ChatId) -> PlatformChat:
        """Return the chat of this id.

        Raises:
            ImpossibleActError: there is no such chat.
        """
        if (chat := self._chats.get(chat_id)) is None:
            raise ImpossibleActError("there is no chat of this id")
        return chat

    def has_chat(self, chat_id: ChatId) -> bool:
        """Whether a chat has this id, with or without members."""
        return chat_id in self._chats

    def find(self, recipient: Recipient) -> PlatformChat | None:
        """Return the recipient's chat; None if the bot can't write to this chat.

        The bot can write to a private chat only if the person is a member. A group needs no members.
        """
        chat: PlatformChat | None = None
        match as_recipient(recipient):
            case int() as chat_id:
                chat = self._chats.get(ChatId(chat_id))
            case str() as phone if phone.startswith("+"):
                user = self.people.by_phone(PhoneNumber(phone))
                chat = self._chats[user.chat_id] if user is not None else None
            case str() as name:
                chat = self._groups.get(GroupName("@" + name.strip("@")))
        return chat if chat is not None and (chat.name is not None or chat.members) else None

    def add_user(
        self,
        name: str,
        *,
        user_id: SenderId | None = None,
        chat_id: ChatId | None = None,
        username: str | None = None,
        phone: str | None = None,
        irr: int = 0,
        coin: int = 0,
    ) -> User:
        """Create a person, who is not yet a member of the private chat. Missing values are generated.

        Raises:
            ImpossibleActError: an id, the phone number or the name is taken, or an amount is negative.
        """
        chat = self._new_chat(chat_id, _FIRST_CHAT + len(self._chats), None)
        ids = {user.id for user in self.people}
        if user_id is None:
            user_id = SenderId(_free(_FIRST_USER + len(ids), ids))
        number = PhoneNumber(phone or f"+98910{user_id:07d}")
        if user_id in ids or any(other.phone == number or other.name == name for other in self.people):
            raise ImpossibleActError("somebody has this name, this phone number or this id already")
        if min(irr, coin) < 0:
            raise ImpossibleActError("a wallet can't be negative")
        user = User(user_id, name, username or f"user{user_id}", number, chat.id, {"IRR": irr, "coin": coin})
        self.people.add(user)
        self._chats[chat.id] = chat
        return user

    def add_group(self, name: str, chat_id: ChatId | None = None) -> PlatformChat:
        """Create a group with the bot, but without people.

        Raises:
            ImpossibleActError: the name or the id is taken.
        """
        key = GroupName("@" + name.strip("@"))
        if key in self._groups:
            raise ImpossibleActError("there is a group of this name already")
        chat = self._new_chat(chat_id, _FIRST_GROUP + len(self._groups), key)
        self._chats[chat.id] = self._groups[key] = chat
        return chat

    def _new_chat(self, chat_id: ChatId | None, first: int, name: GroupName | None) -> PlatformChat:
        if chat_id is None:
            chat_id = ChatId(_free(first, self._chats))
        if chat_id in self._chats:
            raise ImpossibleActError("there is a chat of this id already")
        return PlatformChat(chat_id, name)

    # --- state that outlives the process

    def number_from(self, last_message: int, invoices: int, seq: int = 0) -> None:
        """Set the numbers of the newest message, invoice and change; later numbers follow these numbers."""
        self.last_message, self.invoices, self.seq = last_message, invoices, max(seq, self.seq)

    def restore(self, chat: PlatformChat) -> None:
        """Add a saved chat."""
        self._chats[chat.id] = chat
        if chat.name is not None:
            self._groups[chat.name] = chat

    # --- for the modules `acts` and `performing`

    def record(self, at: int, *consequences: Consequence) -> None:
        """Add changes to the log. Changes that a chat shows as lines are added to the chat too."""
        for consequence in consequences:
            self.seq += 1
            stands = is_line(consequence)
            change = Change(self.seq, at, consequence, MessageId(self.last_message) if stands else None)
            self._log.append(change)
            if stands:
                self._chats[consequence.chat_id].lines.append(change)

    def stand(self, chat_id: ChatId, lines: Iterable[Change]) -> None:
        """Replace the chat's lines by `lines`, perhaps from another world. Each line gets a new number."""
        chat = self._chats[chat_id]
        chat.lines.clear()
        for line in lines:
            self.seq += 1
            chat.lines.append(attrs.evolve(line, seq=self.seq))

    def rewritten(self) -> None:
        """Make readers of the log reload the whole state, after a change that the log doesn't contain."""
        self.seq += 1
        self._log.clear()

    def next_message_id(self) -> MessageId:
        """Return a new message id, unique in the world."""
        self.last_message += 1
        return MessageId(self.last_message)

    def next_invoice_id(self) -> InvoiceId:
        """Return a new invoice id, unique in the world: digits, as the interface says."""
        self.invoices += 1
        return InvoiceId(str(_FIRST_INVOICE + self.invoices - 1))

    def letters(self) -> str:
        """Return sixteen random letters and digits, as in a callback id."""
        return "".join(self._chance.choices(_LETTERS, k=16))

    def catch_up(self, now: int) -> None:
        """Refund the uncaptured money that is due for a refund by `now`."""
        for bill, taking, due in self.bills.lapse(now, self.switches.verify_window):
            self.people.get(taking.payer).wallet[taking.currency] += taking.amount
            self.record(
                due,
                MoneyMoved(bill.chat_id, taking.payer, "refunded", taking.currency, taking.amount, bill.id),
            )


def _free(number: int, taken: Container[int]) -> int:
    """Return the first number from `number` on that isn't in `taken`."""
    while number in taken:
        number += 1
    return number

"""The people of the emulated platform: who they are, and what is in their wallets.

A person has one id everywhere (`User.id`, what events carry as sender) and one private chat with the bot
(`User.chat_id`); the two differ, as they do on the platform (interface section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import attrs

from ..errors import TriobotError
from ..wire.events import Sender
from ..wire.ids import ChatId, PhoneNumber, SenderId
from ..wire.markup import Currency

_FIRST_USER = 1001


@final
class ImpossibleActError(TriobotError):
    """A person tried what the app doesn't offer: no such button, not a member, already gone."""


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
        """Return this person as events show a sender."""
        return Sender(self.id, self.name, self.username)


@final
class People:
    """All people, by id, by phone number and by name."""

    def __init__(self) -> None:
        self._by_id: dict[SenderId, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(self._by_id.values())

    def add(
        self,
        name: str,
        chat_id: ChatId,
        *,
        username: str | None = None,
        phone: str | None = None,
        irr: int = 0,
        coin: int = 0,
    ) -> User:
        """Make a person; what isn't given is made up, the same way every time.

        Raises:
            ImpossibleActError: the phone number or the name is taken, or an amount is negative.
        """
        user_id = SenderId(_FIRST_USER + len(self._by_id))
        number = PhoneNumber(phone or f"+98910{user_id:07d}")
        if any(other.phone == number or other.name == name for other in self):
            raise ImpossibleActError("somebody has this name or this phone number already")
        if min(irr, coin) < 0:
            raise ImpossibleActError("a wallet can't be negative")
        user = User(user_id, name, username or f"user{user_id}", number, chat_id, {"IRR": irr, "coin": coin})
        self._by_id[user_id] = user
        return user

    def restore(self, user: User) -> None:
        """Put back a person of another run."""
        self._by_id[user.id] = user

    def get(self, user_id: SenderId) -> User:
        """Return the person of this id.

        Raises:
            ImpossibleActError: there is none.
        """
        if (user := self._by_id.get(user_id)) is None:
            raise ImpossibleActError("there is nobody of this id")
        return user

    def by_phone(self, phone: PhoneNumber) -> User | None:
        """Find the person who has this number."""
        return next((user for user in self if user.phone == phone), None)

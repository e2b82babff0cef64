"""What authors build keyboards from.

The buttons of a question carry the question's token in front, so that an old keyboard can't answer a new
question; other buttons carry none and live as long as their message. `keys` says how a key travels.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, final

import attrs
from typing_extensions import TypeVar

from ..errors import LocalProtocolError
from ..wire.events import Event, Press
from ..wire.markup import (
    SHARE_CONTACT,
    SHARE_LOCATION,
    CallbackButton,
    InlineButton,
    InlineKeyboard,
    Key,
    LinkButton,
    ReplyKeyboard,
)
from ..wire.results import Sent
from .filters import Filter, Setting
from .keys import LASTING
from .keys import encode_key as encode_key
from .keys import question_data as question_data

K_co = TypeVar("K_co", covariant=True, bound=Hashable)
L = TypeVar("L", bound=Hashable)


@final
@attrs.frozen
class Choice(Generic[K_co]):
    """A button with a key."""

    key: K_co
    label: str


@final
@attrs.frozen
class Link:
    """A button that opens an address."""

    label: str
    url: str


@final
@attrs.frozen(init=False)
class Buttons(Generic[K_co]):
    """An inline keyboard: keys of any type with their labels, in rows of `columns`.

    ``a + b`` puts the rows of `b` under those of `a`, and joins the types of the keys.

    Example:
        >>> size = Buttons({"s": "Small", "l": "Large"}, columns=2)
        >>> more = size + Buttons({0: "Back"}).link("Menu", "https://example.org/menu")
    """

    rows: tuple[tuple[Choice[K_co] | Link, ...], ...]

    def __init__(
        self,
        options: Mapping[K_co, str],
        columns: int = 1,
        *,
        rows: Sequence[Sequence[Choice[K_co] | Link]] | None = None,
    ) -> None:
        if columns < 1:
            raise LocalProtocolError("columns", "must be at least 1")
        if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LocalProtocolError("options", "must be labels by key, such as {'y': 'Yes', 'n': 'No'}")
        if rows is None:
            choices = [Choice(key, label) for key, label in options.items()]
            rows = [choices[start : start + columns] for start in range(0, len(choices), columns)]
        object.__setattr__(self, "rows", tuple(tuple(row) for row in rows))

    def __add__(self, other: Buttons[L]) -> Buttons[K_co | L]:
        none: Mapping[K_co | L, str] = {}
        return Buttons(none, rows=[*self.rows, *other.rows])

    def link(self, label: str, url: str) -> Buttons[K_co]:
        """Add a row with a button that opens `url`."""
        none: Mapping[K_co, str] = {}
        return Buttons(none, rows=[*self.rows, (Link(label, url),)])

    def pressed(self, on: Sent) -> Filter[Press[K_co]]:
        """Take presses of these buttons under one message; `Press.value` is the key.

        For buttons that `send` put there: they live as long as their message, and anybody in the chat may
        press them any number of times.

        Example:
            >>> async def vote(chat: Chat) -> None:
            ...     buttons = Buttons({True: "Yes", False: "No"})
            ...     asked = await chat.send("Pizza today?", buttons=buttons)
            ...     with chat.move_on_after(60):
            ...         while True:
            ...             press = await chat.receive(buttons.pressed(asked))
            ...             await chat.answer("Noted." if press.value else "A pity.")
        """
        keys = {question_data(LASTING, key): key for key in self.keys.values()}

        def look(event: Event, setting: Setting) -> Press[K_co] | None:
            if not isinstance(event, Press) or event.on != on or event.value not in keys:
                return None
            return attrs.evolve(event, value=keys[event.value])

        return Filter(look, "Buttons.pressed(...)")

    @property
    def keys(self) -> Mapping[str, K_co]:
        """The keys by their text."""
        return {encode_key(b.key): b.key for row in self.rows for b in row if isinstance(b, Choice)}

    def keyboard(self, token: str | None = None) -> InlineKeyboard:
        """The wire's keyboard; with a question's token, or without for buttons that last."""
        front = LASTING if token is None else token
        return InlineKeyboard(
            tuple(tuple(_button(button, front) for button in row) for row in self.rows),
        )


def _button(button: Choice[object] | Link, front: str) -> InlineButton:
    if isinstance(button, Link):
        return LinkButton(button.label, button.url)
    return CallbackButton(button.label, question_data(front, button.key))


@final
@attrs.frozen(init=False)
class Keyboard:
    """A reply keyboard under the text field: the key is what arrives, the label what is seen.

    Args:
        options: keys and labels.
        columns: keys in a row.
        contact, location: labels of keys that ask the user to share a phone number or a place.
        once: hide it after one tap.
    """

    reply: ReplyKeyboard

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        columns: int = 1,
        *,
        contact: str | None = None,
        location: str | None = None,
        once: bool | None = True,
    ) -> None:
        if columns < 1:
            raise LocalProtocolError("columns", "must be at least 1")
        keys = [Key(value, label) for value, label in (options or {}).items()]
        rows = [tuple(keys[start : start + columns]) for start in range(0, len(keys), columns)]
        if contact is not None:
            rows.append((Key(SHARE_CONTACT, contact),))
        if location is not None:
            rows.append((Key(SHARE_LOCATION, location),))
        object.__setattr__(self, "reply", ReplyKeyboard(tuple(rows), once=once if rows else None))


NO_KEYBOARD: Final = Keyboard(once=None)
"""Removes the reply keyboard (gap 10)."""


def inline_of(buttons: object) -> InlineKeyboard | None:
    """The wire's keyboard of buttons that last, or None for none.

    Raises:
        LocalProtocolError: these are no `Buttons`.
    """
    if buttons is None:
        return None
    if not isinstance(buttons, Buttons):
        raise LocalProtocolError("buttons", "must be Buttons, as in Buttons({'yes': 'Yes', 'no': 'No'})")
    return buttons.keyboard()


def reply_of(keyboard: object) -> ReplyKeyboard | None:
    """The wire's reply keyboard, or None to leave it as it is.

    Raises:
        LocalProtocolError: this is no `Keyboard`.
    """
    if keyboard is None:
        return None
    if not isinstance(keyboard, Keyboard):
        raise LocalProtocolError("keyboard", "must be a Keyboard, as in Keyboard({'yes': 'Yes', 'no': 'No'})")
    return keyboard.reply

"""Buttons and keyboards, as authors define them.

The callback data of a question's buttons begin with the question's token, so an old keyboard can't answer a
new question. Other buttons have no token, and work as long as their message exists. `keys` encodes the
buttons' keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, cast, final

import attrs
from typing_extensions import TypeVar

from ...base.frozen import guarded
from ...errors import LocalProtocolError
from ...wire.events import Event, Press
from ...wire.markup import (
    SHARE_CONTACT,
    SHARE_LOCATION,
    CallbackButton,
    InlineButton,
    InlineKeyboard,
    Key,
    LinkButton,
    ReplyKeyboard,
)
from ...wire.results import Sent
from ..routes.filters import Filter, Setting
from .keys import LASTING, question_data

K_co = TypeVar("K_co", covariant=True, bound=Hashable)
L = TypeVar("L", bound=Hashable)


@final
@guarded
class Choice(Generic[K_co]):
    """Button with a key."""

    key: K_co
    label: str


@final
@attrs.frozen(init=False)
class Buttons(Generic[K_co]):
    """Inline keyboard: labels by key, in rows of `columns`.

    A key is a `str`, `int`, `bool`, `date`, `datetime`, `time`, `timedelta`, an Enum, or a value of a frozen
    attrs class or dataclass. ``a + b`` appends the rows of `b` to the rows of `a`; the new key type is the
    union of both key types. ``len(a)`` counts the buttons, links included. So an empty keyboard is false in a
    condition.

    Examples:
        >>> size = Buttons({"s": "Small", "l": "Large"}, columns=2)
        >>> more = size + Buttons({0: "Back"}).link("Menu", "https://example.org/menu")
    """

    _rows: tuple[tuple[Choice[K_co] | LinkButton, ...], ...]

    def __init__(self, options: Mapping[K_co, str], columns: int = 1) -> None:
        _check_columns(columns)
        if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LocalProtocolError("options", "must be labels by key, such as {'y': 'Yes', 'n': 'No'}")
        choices = [Choice(key, label) for key, label in options.items()]
        rows = [tuple(choices[start : start + columns]) for start in range(0, len(choices), columns)]
        object.__setattr__(self, "_rows", tuple(rows))

    def __add__(self, other: Buttons[L]) -> Buttons[K_co | L]:
        if not isinstance(cast("object", other), Buttons):
            return NotImplemented
        none: Mapping[K_co | L, str] = {}
        return _with_rows(Buttons(none), (*self._rows, *other._rows))

    def __len__(self) -> int:
        return sum(len(row) for row in self._rows)

    def link(self, label: str, url: str) -> Buttons[K_co]:
        """Return the keyboard with one more row: a button that opens `url`."""
        none: Mapping[K_co, str] = {}
        return _with_rows(Buttons(none), (*self._rows, (LinkButton(label, url),)))

    def pressed(self, on: Sent) -> Filter[Press[K_co]]:
        """Return a filter for presses of these buttons under one message; `Press.value` is the key.

        The filter is for buttons that `send` sent. These buttons work as long as their message exists, and
        all users in the chat may press them any number of times.

        Examples:
            >>> async def vote(chat: Chat) -> None:
            ...     buttons = Buttons({True: "Yes", False: "No"})
            ...     asked = await chat.send("Pizza today?", buttons=buttons)
            ...     with chat.move_on_after(60):
            ...         while True:
            ...             press = await chat.receive(buttons.pressed(asked))
            ...             await chat.answer("Noted." if press.value else "A pity.")
        """
        keys = keys_of(self)

        def look(event: Event, setting: Setting) -> Press[K_co] | None:
            if not isinstance(event, Press) or event.value not in keys:
                return None
            # If the platform returned no message id, only the keys identify the buttons.
            if event.chat_id != on.chat_id or on.id not in (None, event.message_id):
                return None
            return attrs.evolve(event, value=keys[event.value])

        return Filter(look, "Buttons.pressed(...)")


def _with_rows(buttons: Buttons[L], rows: tuple[tuple[Choice[L] | LinkButton, ...], ...]) -> Buttons[L]:
    object.__setattr__(buttons, "_rows", rows)
    return buttons


def keys_of(buttons: Buttons[L], front: str = LASTING) -> dict[object, L]:
    """Map each button's callback data to the button's key; links have no key, and are left out.

    Args:
        front: token of the question to which the buttons belong.
    """
    rows = buttons._rows  # pyright: ignore[reportPrivateUsage]
    choices = [button for row in rows for button in row if isinstance(button, Choice)]
    return {question_data(front, choice.key): choice.key for choice in choices}


def keyboard_of(buttons: Buttons[Any], token: str | None = None) -> InlineKeyboard:
    """Convert buttons to the wire's keyboard; with a `token`, presses answer only the token's question."""
    front = LASTING if token is None else token
    rows = buttons._rows  # pyright: ignore[reportPrivateUsage]
    return InlineKeyboard(tuple(tuple(_button(button, front) for button in row) for row in rows))


def _check_columns(columns: object) -> None:
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise LocalProtocolError("columns", "must be at least 1")


def _button(button: Choice[object] | LinkButton, front: str) -> InlineButton:
    if isinstance(button, LinkButton):
        return button
    return CallbackButton(button.label, question_data(front, button.key))


@final
@attrs.frozen(init=False)
class Keyboard:
    """Reply keyboard under the text field. A tap sends the key as a message; the user sees the label.

    Args:
        options: labels by key.
        columns: number of keys in a row.
        contact, location: label of a key that asks the user to share a phone number or a location.
        once: whether to hide the keyboard after one tap.
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
        _check_columns(columns)
        if not isinstance(cast("object", options), Mapping | None):
            raise LocalProtocolError("options", "must be labels by key, such as {'/help': 'Help'}")
        keys = [Key(value, label) for value, label in (options or {}).items()]
        rows = [tuple(keys[start : start + columns]) for start in range(0, len(keys), columns)]
        if contact is not None:
            rows.append((Key(SHARE_CONTACT, contact),))
        if location is not None:
            rows.append((Key(SHARE_LOCATION, location),))
        object.__setattr__(self, "reply", ReplyKeyboard(tuple(rows), once=once if rows else None))


NO_KEYBOARD: Final = Keyboard(once=None)
"""Value that removes the reply keyboard from the screen (gap 10)."""


def inline_of(buttons: object) -> InlineKeyboard | None:
    """Convert buttons that belong to no question to the wire's keyboard; return None for None.

    Raises:
        LocalProtocolError: `buttons` is not a `Buttons`.
    """
    if buttons is None:
        return None
    if not isinstance(buttons, Buttons):
        raise LocalProtocolError("buttons", "must be Buttons, as in Buttons({'yes': 'Yes', 'no': 'No'})")
    return keyboard_of(buttons)  # pyright: ignore[reportUnknownArgumentType]


def reply_of(keyboard: object) -> ReplyKeyboard | None:
    """Return a keyboard's `reply`, the wire's reply keyboard; return None for None.

    Raises:
        LocalProtocolError: `keyboard` is not a `Keyboard`.
    """
    if keyboard is None:
        return None
    if not isinstance(keyboard, Keyboard):
        raise LocalProtocolError("keyboard", "must be a Keyboard, as in Keyboard({'yes': 'Yes', 'no': 'No'})")
    return keyboard.reply

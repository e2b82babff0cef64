"""What authors build keyboards from, and how a button's key travels.

A key goes on the wire by its value, never by its place: a deploy that reorders options can't turn "No"
into "Yes". The buttons of a question carry the question's token in front, so that an old keyboard can't
answer a new question; other buttons carry none and live as long as their message.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, final

import attrs
import cattrs
from typing_extensions import TypeVar

from ..errors import LocalProtocolError
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
from ..wire.rules import compact_json

K_co = TypeVar("K_co", covariant=True, bound=Hashable)
L = TypeVar("L", bound=Hashable)

_LASTING: Final = "b"


def encode_key(key: object) -> str:
    """The text of a key: a str, int, bool, Enum or frozen attrs value.

    Raises:
        LocalProtocolError: it is something else, or can't be written down.
    """
    match key:
        case str():
            return "s" + key
        case bool():
            return f"t{int(key)}"
        case enum.Enum():
            return f"e{type(key).__name__}.{key.name}"
        case int():
            return f"i{key}"
        case _ if attrs.has(type(key)):
            try:
                return f"v{type(key).__name__}{compact_json(cattrs.unstructure(key))}"
            except (TypeError, ValueError):
                pass
        case _:
            pass
    raise LocalProtocolError("cb_data", "a button's key must be a str, int, bool, Enum or frozen attrs value")


def question_data(token: str, key: object) -> str:
    """What a question's button sends."""
    return f"{token}.{encode_key(key)}"


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

    @property
    def keys(self) -> Mapping[str, K_co]:
        """The keys by their text."""
        return {encode_key(b.key): b.key for row in self.rows for b in row if isinstance(b, Choice)}

    def keyboard(self, token: str | None = None) -> InlineKeyboard:
        """The wire's keyboard; with a question's token, or without for buttons that last."""
        front = _LASTING if token is None else token
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

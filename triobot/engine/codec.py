"""Values and errors as JSON: what an operation returns or raises, live as well as on replay.

Live code gets its values through here too. An `except KeyError` that works today works in tomorrow's replay,
and what the code changes is never the very object that was recorded.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, cast

import trio

from ..errors import (
    ForeignTaskError,
    NonDurableCancelError,
    StepError,
    UnreadableRecordError,
    UnrecordableError,
)
from .records import Node, encode

Raises: TypeAlias = Sequence[type[Exception]]
"""An author's own error classes that come back as themselves."""

PLAIN: Final = frozenset((str, int, float, bool, type(None)))
"""Types of nodes that are values as they are: nothing can change them."""

_LONG: Final = 100_000
_MOST: Final = 2**63
_DEPTH: Final = 64

_OWN: Final[Mapping[str, type[Exception]]] = {
    cls.__name__: cls
    for cls in (ForeignTaskError, NonDurableCancelError, StepError, UnrecordableError, UnreadableRecordError)
} | {
    f"trio.{cls.__name__}": cls
    for cls in (
        trio.TooSlowError,
        trio.BusyResourceError,
        trio.ClosedResourceError,
        trio.BrokenResourceError,
        trio.EndOfChannel,
        trio.WouldBlock,
    )
}


class Codec:
    """Turns values into nodes and back. This one takes what JSON has: a subclass may take more.

    An error is recorded by its class and arguments if it is a builtin one, one of Trio's, or one of `errors`;
    its cause, traceback and notes are lost. What can't be recorded becomes a `StepError` with its text.

    Args:
        errors: more error classes that can be made again of their arguments, by the names to record.
        largest: characters that a recorded value may take.
    """

    def __init__(
        self, errors: Mapping[str, type[Exception]] | None = None, *, largest: int = 16_000_000
    ) -> None:
        self._classes = {**_OWN, **(errors or {})}
        self._names = {cls: name for name, cls in self._classes.items()}
        self._largest = largest

    # --- to be overridden together

    def dump(self, value: object) -> Node:
        """Return the node of a value that is more than a number or a short text.

        Raises:
            UnrecordableError: nothing can be made of it that gives it back.
        """
        return _dump(value, "value", 0)

    def load(self, node: Node) -> object:
        """Return a fresh value of what `dump` made.

        Raises:
            UnreadableRecordError: this program knows no such value.
        """
        return _load(node)

    def is_frozen(self, value: object) -> bool:
        """Return whether nobody could tell what `load` makes of a value's node from the value itself.

        Then code gets the value itself, otherwise what a replay would give it. False is always right.
        """
        return False

    # --- values

    def node_of(self, value: object) -> Node:
        """Return the node to record for a value.

        Raises:
            UnrecordableError: there is none, or it takes too much room.
        """
        if value is None or value is True or value is False:
            return value
        if type(value) is int and -_MOST < value < _MOST:
            return value
        if type(value) is str and value.isascii() and len(value) < _LONG:
            return value
        node = self.dump(value)
        if len(encode(node)) > self._largest:
            rule = f"a record holds at most {self._largest} characters; keep what is long elsewhere"
            raise UnrecordableError(type(value).__name__, "value", rule)
        return node

    def value_of(self, node: Node) -> object:
        """Return the value that a node stands for."""
        return node if type(node) in PLAIN else self.load(node)

    # --- errors

    def node_of_error(self, error: Exception, raises: Raises = ()) -> Node:
        """Return the node to record for an error: that of its text, if it takes too much room as a whole."""
        with suppress(UnrecordableError):
            node = self._error_node(error, tuple(raises))
            if len(encode(node)) <= self._largest:
                return node
        return _text_of(error)

    def _error_node(self, error: Exception, raises: tuple[type[Exception], ...]) -> Node:
        cls = type(error)
        if cls is ExceptionGroup:
            group = cast("ExceptionGroup[Exception]", error)
            return ["group", group.message, [self.node_of_error(one, raises) for one in group.exceptions]]
        if (name := self._names.get(cls)) is not None or cls.__module__ == "builtins":
            return [name or cls.__name__, [self.node_of(arg) for arg in error.args]]
        if raises and isinstance(error, raises):
            attributes = {
                key: self.node_of(value) for key, value in vars(error).items() if key != "__notes__"
            }
            return ["raised", _full_name(cls), [self.node_of(arg) for arg in error.args], attributes]
        return _text_of(error)

    def error_of(self, node: Node, raises: Raises = ()) -> Exception:
        """Return the error that a node stands for, a fresh one each time.

        Raises:
            UnreadableRecordError: its class is not known here.
        """
        match cast("list[object]", node):
            case ["group", str() as message, members]:
                return ExceptionGroup(
                    message, [self.error_of(one, raises) for one in cast("list[object]", members)]
                )
            case ["raised", str() as name, args, attributes]:
                cls = next((cls for cls in _with_subclasses(raises) if _full_name(cls) == name), None)
                if cls is None:
                    return StepError(name.rpartition(".")[2], "its class is no longer among raises=")
                # Without its __init__, whose parameters need not be its arguments.
                error = cls.__new__(cls, *map(self.value_of, cast("list[object]", args)))
                known = cast("dict[str, object]", attributes)
                vars(error).update({key: self.value_of(one) for key, one in known.items()})
                return error
            case [str() as name, args]:
                found: object = self._classes.get(name) or getattr(builtins, name, None)
                if not (isinstance(found, type) and issubclass(found, Exception)):
                    raise UnreadableRecordError(f"this program knows no error {name!r}")
                return found(*map(self.value_of, cast("list[object]", args)))
            case _:
                raise UnreadableRecordError("this is no recorded error")


def _text_of(error: Exception) -> Node:
    kind, text = (error.kind, error.text) if type(error) is StepError else (type(error).__name__, str(error))
    return ["StepError", [kind, text[:_LONG].encode(errors="replace").decode()]]


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _with_subclasses(classes: Raises) -> list[type[Exception]]:
    found: list[type[Exception]] = []
    for cls in classes:
        found += [cls, *_with_subclasses(cls.__subclasses__())]
    return found


def _dump(value: object, path: str, depth: int) -> Node:
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is str:
        try:
            cast("str", value).encode()
        except UnicodeEncodeError:
            raise UnrecordableError("str", path, "a text with half a surrogate pair has no code") from None
        return value
    if kind is int:
        if -_MOST < cast("int", value) < _MOST:
            return value
        raise UnrecordableError("int", path, "a whole number has at most 63 bits")
    if kind is float:
        if math.isfinite(cast("float", value)):
            return value
        raise UnrecordableError("float", path, "a float must be finite")
    if depth > _DEPTH:
        raise UnrecordableError(kind.__name__, path, f"values nest at most {_DEPTH} deep")
    if kind is list:
        items = cast("list[object]", value)
        return [_dump(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(items)]
    if kind is dict:
        entries = cast("dict[object, object]", value)
        for key in entries:
            if type(key) is not str:
                raise UnrecordableError(type(key).__name__, f"a key of {path}", "JSON has keys of text only")
        return {
            _dump(key, path, depth): _dump(one, f"{path}[...]", depth + 1) for key, one in entries.items()
        }
    rule = "JSON has no such type: record what it is made of, or give the run a codec that knows it"
    raise UnrecordableError(kind.__qualname__, path, rule)


def _load(node: Node) -> object:
    if type(node) is list:
        return [_load(one) for one in cast("list[object]", node)]
    if type(node) is dict:
        return {key: _load(one) for key, one in cast("dict[str, object]", node).items()}
    return node


JSON: Final = Codec()
"""The codec that knows what JSON has."""

"""What tells a reworded operation from the recorded one, without its words.

`Closed` stands in for a resource where none is open: it can be handed on, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NoReturn, cast, final
from uuid import UUID

import attrs

from ...errors import LocalProtocolError
from ...resources import Opened, Resource
from ...wire.operations import Operation, SendMessage

# What is nothing but its value. All else may be a handle on the world, which a step may well be given.
_NO_MARKUP: Final = {"reply_keyboard": None, "inline_keyboard": None, "form": None}
_PLAIN: Final = frozenset({str, bytes, int, float, bool, UUID, date, datetime, timedelta})


@final
class Closed:
    """Stands for a resource that isn't opened: its methods may be handed to a step, and nothing else."""

    def __init__(self, name: str, all_closed: _AllClosed) -> None:
        self._name = name
        self._all = all_closed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Closed(f"{self._name}.{name}", self._all)

    def _refuse(self, *_: object) -> NoReturn:
        self._all.touched = True
        raise LocalProtocolError(
            self._name, "is a resource, which is not open when a journal is only looked at; use it in a step"
        )

    def __repr__(self) -> str:
        # Where it becomes part of a text, the text is another one than live.
        self._all.touched = True
        return f"<{self._name}, closed>"

    __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __enter__ = __exit__ = __aenter__ = __aexit__ = __await__ = _refuse


@final
class _AllClosed(dict["Resource[object]", object]):
    touched = False

    def __missing__(self, resource: Resource[object]) -> object:
        return Closed(resource.name, self)

    def __contains__(self, key: object) -> bool:
        return True


def closed_resources() -> Opened:
    """Return every resource, none of them open."""
    return _AllClosed()


def touched(resources: Opened) -> bool:
    """Return whether code has looked into one of the resources that are closed."""
    return isinstance(resources, _AllClosed) and resources.touched


def fingerprint(operation: Operation[object]) -> str:
    """Return a digest of what is sent."""
    if (
        type(operation) is SendMessage
        and type(operation.content) is str
        and not (operation.reply_keyboard or operation.inline_keyboard or operation.form)
    ):
        # As below, for most of all.
        told: dict[str, object] = {"chat_id": operation.chat_id, "content": operation.content}
        return _digest(repr(told | _NO_MARKUP))
    return _digest(repr(attrs.asdict(cast("attrs.AttrsInstance", operation))))


def fingerprint_of_call(fn: object, args: Sequence[object]) -> str:
    """Return the name of what a step calls, and a digest of those arguments that are plain values.

    What a resource gives that isn't open can't be told, and is left out.
    """
    name = "" if isinstance(fn, Closed) else getattr(fn, "__qualname__", type(fn).__name__)
    plain = [(number, arg) for number, arg in enumerate(args) if type(arg) in _PLAIN]
    if not plain or any(isinstance(arg, Closed) for arg in args):
        return f"{name}"
    return f"{name} {_digest(repr(plain))}"


def _digest(shown: str) -> str:
    return hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=8).hexdigest()

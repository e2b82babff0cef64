"""What tells a reworded operation from the recorded one, without its words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final, cast
from uuid import UUID

import attrs

from ...wire.operations import Operation
from .closed import Closed

# What is nothing but its value. All else may be a handle on the world, which a step may well be given.
_PLAIN: Final = frozenset({str, bytes, int, float, bool, UUID, date, datetime, timedelta})


def fingerprint(operation: Operation[object]) -> str:
    """Return a digest of what is sent."""
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

"""What tells a reworded operation from the recorded one, without its words."""

from __future__ import annotations

import hashlib
from typing import cast

import attrs

from ...wire.operations import Operation


def fingerprint(operation: Operation[object]) -> str:
    """A digest of what is sent."""
    shown = repr(attrs.asdict(cast("attrs.AttrsInstance", operation)))
    return hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=8).hexdigest()

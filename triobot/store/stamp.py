"""Which platform a store belongs to.

A store holds conversations and money of one bot. Opened for another bot or another platform by accident,
its charges would be verified by a bot that never heard of them, so it carries a stamp from the day it is
made. The token itself is never stored: only a salted digest, enough to tell whether it is the same.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import final
from urllib.parse import urlsplit

import attrs

from ..errors import ConfigError
from ..wire.rules import is_text


@final
@attrs.frozen
class Stamp:
    """The platform and the bot that a store belongs to.

    Args:
        base_url: the platform's address; a slash at its end makes no difference.
        token: the bot's token; it stays in memory.
    """

    base_url: str = attrs.field(validator=is_text())
    token: str = attrs.field(repr=False, validator=is_text())


@final
@attrs.frozen
class StoredStamp:
    """What the store keeps of a stamp."""

    base_url: str
    salt: str = attrs.field(repr=False)
    digest: str = attrs.field(repr=False)


def sealed(stamp: Stamp) -> StoredStamp:
    """Return what to store of this stamp, its token digested under a fresh salt."""
    salt = secrets.token_hex(16)
    return StoredStamp(_normal(stamp.base_url), salt, _digest(salt, stamp.token))


def check_stamp(stored: StoredStamp, stamp: Stamp) -> None:
    """Refuse a store that belongs to another platform or another bot.

    Raises:
        ConfigError: says which of the two differs, and what to do.
    """
    if stored.base_url != _normal(stamp.base_url):
        raise ConfigError(
            f"this store was made for another platform address, at {_host(stored.base_url)}; give this bot a"
            " store of its own, or, if the platform has moved, run `triobot store rebind`"
        )
    if not hmac.compare_digest(_digest(stored.salt, stamp.token), stored.digest):
        raise ConfigError(
            "this store was made with another token; give this bot a store of its own, or, if the same bot's"
            " token was replaced, run `triobot store rebind`"
        )


def _normal(base_url: str) -> str:
    return base_url.rstrip("/")


def _digest(salt: str, token: str) -> str:
    return hashlib.sha256(f"{salt}:{token}".encode()).hexdigest()


def _host(base_url: str) -> str:
    # Not the whole address: it may carry a password.
    return urlsplit(base_url).hostname or "an unnamed host"

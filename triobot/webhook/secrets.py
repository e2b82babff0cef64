"""The secret segment of the webhook's address: the only thing that tells the platform from strangers.

Several are accepted, so that a secret can be changed without losing an event: put the new one first,
register the new address, take the old one out. No log, error or repr ever shows one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets as system
from collections.abc import Sequence
from typing import Final, final
from urllib.parse import urlsplit

import attrs

from ..base.frozen import guarded
from ..errors import ConfigError
from ..seams.values import reading

# 22 characters of six bits carry 132 bits; 512 keep the request line short.
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{22,512}", re.ASCII)
_RULE: Final = "a webhook secret must be 22 to 512 random letters, digits, - or _ (at least 128 bits)"

# A person's "aaaa..." passes the shape; a random secret of 22 characters has fewer than eight different
# ones about once in 10**12.
_FEWEST_DIFFERENT: Final = 8


def _digest(text: bytes) -> bytes:
    # `compare_digest` takes the same time for all digests, whatever the length of the text, and can't meet
    # the type errors that comparing text can.
    return hashlib.blake2b(text).digest()


@final
@guarded
class Secrets:
    """The accepted secrets, the current one first. `parse` and `generate` make them."""

    _values: tuple[str, ...] = attrs.field(repr=False)
    _digests: tuple[bytes, ...] = attrs.field(repr=False, init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if not self._values:
            raise ConfigError(_RULE)
        for value in self._values:
            if not _SHAPE.fullmatch(value) or len(set(value)) < _FEWEST_DIFFERENT:
                raise ConfigError(_RULE)
        object.__setattr__(self, "_digests", tuple(_digest(value.encode()) for value in self._values))

    @staticmethod
    def parse(text: str) -> Secrets:
        """Read secrets separated by commas or white space; the first is the current one.

        Raises:
            ConfigError: there is none, or one is too short or not URL-safe. The text is not shown.
        """
        return Secrets(tuple(dict.fromkeys(re.split(r"[,\s]+", text.strip(" \t\r\n,")))))

    @staticmethod
    def generate() -> Secrets:
        """Draw a new one, of 192 bits, from the system's generator."""
        return Secrets((system.token_urlsafe(24),))

    def covered(self, text: str) -> str:
        """Return a text with ``***`` in place of each secret that is in it."""
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def forget_oldest(self) -> None:
        """Stop accepting the oldest one, unless it is the current one."""
        object.__setattr__(self, "_digests", self._digests[: max(1, len(self._digests) - 1)])

    @property
    def current(self) -> str:
        """Return the secret to register. It lets a person forge any event: show it to the operator only."""
        return self._values[0]

    @property
    def path(self) -> str:
        """Return the path to register, with the secret in it."""
        return "/" + self._values[0]

    def matches(self, candidate: str) -> bool:
        """Return whether this is an accepted secret, in a time that tells nothing of how much is right."""
        digest = _digest(candidate.encode("utf-8", "surrogatepass"))
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found


def webhook_address(public_base: str, secrets: Secrets) -> str:
    """Return the address to register with the platform: the public base, and the current secret's path.

    Args:
        public_base: such as ``https://bot.example.com`` or ``https://example.com/bot``.
        secrets: its current one is used.

    Raises:
        ConfigError: `public_base` is no http or https address, or carries a query, a fragment or a user.
    """
    parts = urlsplit(public_base)
    plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ConfigError("the webhook's public address must look like https://bot.example.com")
    return public_base.rstrip("/") + secrets.path


@reading("what the store keeps of the webhook's former secrets")
def read_former(kept: str) -> list[tuple[str, int]]:
    """Read the secrets before the current one as a store keeps them, and until when each is accepted."""
    words = kept.split()
    return [(secret, int(until)) for secret, until in zip(words[::2], words[1::2], strict=True)]


def read_kept(kept: str, former: str, now: int) -> tuple[Secrets, Sequence[int]]:
    """Return the secrets that a store keeps, the current one and the former ones that are accepted still.

    Returns:
        Them, and until when those behind the current one are accepted.
    """
    valid = [(secret, until) for secret, until in read_former(former) if until > now]
    return Secrets.parse(" ".join([kept, *(secret for secret, _ in valid)])), [until for _, until in valid]

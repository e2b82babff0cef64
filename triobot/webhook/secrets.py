"""The secret segment of the webhook's address, the only proof that a request comes from the platform.

Several secrets are accepted, so that a secret can be changed without losing events: put the new secret first,
register the new address, then remove the old secret. No log, error or repr shows a secret.
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

# 22 characters of six bits are 132 bits; the limit of 512 keeps the request line short.
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{22,512}", re.ASCII)
_RULE: Final = "a webhook secret must be 22 to 512 random letters, digits, - or _ (at least 128 bits)"

# A person may choose "aaaa...", which has enough characters. A random secret of 22 characters has fewer than
# eight different characters about once in 10**12.
_FEWEST_DIFFERENT: Final = 8


def _digest(text: bytes) -> bytes:
    # Secrets are compared by digest: all digests have one length, so `compare_digest` takes constant time.
    # For bytes, `compare_digest` raises no type errors.
    return hashlib.blake2b(text).digest()


@final
@guarded
class Secrets:
    """The accepted secrets, the current secret first; made by `parse` and `generate`."""

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
        """Parse secrets separated by commas or white space; the first is the current secret.

        Raises:
            ConfigError: there is no secret, or a secret is too short or not URL-safe. The error doesn't show
                the text.
        """
        return Secrets(tuple(dict.fromkeys(re.split(r"[,\s]+", text.strip(" \t\r\n,")))))

    @staticmethod
    def generate() -> Secrets:
        """Generate a secret of 192 bits with the system's random generator."""
        return Secrets((system.token_urlsafe(24),))

    def covered(self, text: str) -> str:
        """Return `text` with ``***`` in place of each secret."""
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def forget_oldest(self) -> None:
        """Stop accepting the oldest secret, unless only the current secret is left."""
        object.__setattr__(self, "_digests", self._digests[: max(1, len(self._digests) - 1)])

    @property
    def current(self) -> str:
        """The secret to register. Show the secret only to the operator: anyone with the secret can forge
        events.
        """
        return self._values[0]

    @property
    def path(self) -> str:
        """The path to register; contains the secret."""
        return "/" + self._values[0]

    def matches(self, candidate: str) -> bool:
        """Return whether `candidate` is an accepted secret. The duration of the comparison doesn't depend on
        the number of right characters.
        """
        digest = _digest(candidate.encode("utf-8", "surrogatepass"))
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found


def webhook_address(public_base: str, secrets: Secrets) -> str:
    """Return the address to register with the platform: the public base and the current secret's path.

    Args:
        public_base: such as ``https://bot.example.com`` or ``https://example.com/bot``.
        secrets: accepted secrets; the current secret is used.

    Raises:
        ConfigError: `public_base` is no http or https address, or contains a query, a fragment or a user
            name.
    """
    parts = urlsplit(public_base)
    plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ConfigError("the webhook's public address must look like https://bot.example.com")
    return public_base.rstrip("/") + secrets.path


@reading("what the store keeps of the webhook's former secrets")
def read_former(kept: str) -> list[tuple[str, int]]:
    """Parse the store's text of former secrets; return each secret with the time until which the secret
    is accepted.
    """
    words = kept.split()
    return [(secret, int(until)) for secret, until in zip(words[::2], words[1::2], strict=True)]


def read_kept(kept: str, former: str, now: int) -> tuple[Secrets, Sequence[int]]:
    """Parse the store's texts of the current and former secrets, and drop the expired secrets.

    Returns:
        The accepted secrets, and the time until which each former secret is accepted.
    """
    valid = [(secret, until) for secret, until in read_former(former) if until > now]
    return Secrets.parse(" ".join([kept, *(secret for secret, _ in valid)])), [until for _, until in valid]

"""Text that must never be shown: the platform's token, the webhook's secret."""

from __future__ import annotations

import hmac
from typing import Final, NoReturn, final

_SHOWN: Final = "***"


@final
class Secret:
    """Keep a text out of `repr`, `str`, formats, logs and pickles; `reveal` is the one way to it.

    Not an attrs class on purpose: `attrs.asdict` would take the text out.

    Equality with another `Secret` takes the same time wherever they differ.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself: for the header or the comparison that needs it, and for nothing else."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({_SHOWN})"

    def __str__(self) -> str:
        return _SHOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret can't be pickled or copied")


def _bytes(text: str) -> bytes:
    # compare_digest takes text only when it is ASCII, and what strangers send is anything.
    return text.encode("utf-8", "surrogatepass")

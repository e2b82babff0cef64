"""Text that must never be shown, such as the platform's token or the webhook's secret."""

from __future__ import annotations

import hmac
from typing import Final, NoReturn, final

_SHOWN: Final = "***"


@final
class Secret:
    """A text that `repr`, `str`, formats, logs and pickles never contain. Only `reveal` returns the text.

    Not an attrs class on purpose: `attrs.asdict` would return the text.

    The time of a comparison with another `Secret` doesn't depend on the position where the texts differ.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text. Use this method only where a header or a comparison needs the text."""
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
    # compare_digest accepts str only in ASCII, but strangers may send any text.
    return text.encode("utf-8", "surrogatepass")

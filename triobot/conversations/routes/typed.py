"""Texts that users type: comparison, numbers and commands.

Phones add invisible characters to copied text, and keyboards have different digits and letters. Users don't
see such differences, so the functions here ignore such differences. The normalized texts are only for
comparing; conversations get the text unchanged.
"""

from __future__ import annotations

import re
import string
import unicodedata
from decimal import Decimal
from typing import Final, TypeAlias

Number: TypeAlias = int | float | Decimal

NUMBERS: Final = (int, float, Decimal)
UNFIT: Final = (
    *(ValueError, ArithmeticError, LookupError, re.error),
    *(StopIteration, RecursionError, SyntaxError),
)
"""Errors that a parser raises for an invalid text, an unknown name, or too deep nesting."""

_DIGITS: Final = {ord(digit): str(unicodedata.digit(digit)) for digit in "۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩"}
_FOLDED: Final = _DIGITS | {
    ord("ي"): "ی",
    ord("ى"): "ی",
    ord("ك"): "ک",
    ord("ة"): "ه",
    0x0640: None,  # tatweel, which stretches letters
}
# Category Cf of Unicode 16, as ranges; asking for each character's category takes ten times as long.
_FORMAT: Final = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_EMOJI: Final = "\u2190-\u2bff\U0001f000-\U0001faff"
# In an emoji, the joiner and a flag's tags change the emoji's look, so group 1 keeps them.
_UNSEEN: Final = re.compile(
    rf"([{_EMOJI}][\U000e0020-\U000e007e]+\U000e007f|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))|[{_FORMAT}]"
)
# Characters that contain a digit but are no digits, such as superscripts: normalization would change "10²" to
# 102.
_NO_DIGIT: Final = re.compile(
    "([\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215f\u2189\u2460-\u249b\u24ea\u3251-\u325f"
    "\u32b1-\u32cb\u3358-\u3370\u33e0-\u33fe\U0001f100-\U0001f10a]+)"
)
_AROUND: Final = string.whitespace + "".join(
    map(
        chr,
        (*range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070), 0xA0, 0x61C, 0x3000, 0xFEFF),
    )
)
_COMMAND: Final = re.compile(rf"[\s{_FORMAT}]*[/\uff0f](\S+)(.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,30}|[0-9]{1,3}(٬[0-9]{3}){1,9})(\.[0-9]{1,30})?", re.ASCII)
# For whole numbers only: in other numbers, a comma may separate thousands or the fraction.
_THOUSANDS: Final = str.maketrans(",،", "٬٬")


def fold(text: str) -> str:
    """Normalize digits, ي and ی, ك and ک, case, outer blanks and invisible characters, for comparing texts.

    Examples:
        >>> int(fold("۱۲"))
        12
    """
    if text.isascii():
        return text.casefold().strip()
    # Normalize twice: a joiner may separate a letter from its accent, and case folding splits letters.
    return _plain(_plain(text).casefold()).strip()


def _plain(text: str) -> str:
    parts = _NO_DIGIT.split(seen(text.translate(_FOLDED)))
    return "".join(part if n % 2 else unicodedata.normalize("NFKC", part) for n, part in enumerate(parts))


def seen(text: str) -> str:
    """Remove invisible characters, of category Cf, except inside of emojis."""
    return _UNSEEN.sub(r"\1", text)


def bare(text: str) -> str:
    """Remove blanks and invisible characters around a text."""
    return text.strip(_AROUND)


def read_command(text: str) -> tuple[str, str] | None:
    """Split a command: return its folded name, without the slash, and the rest; None for other texts."""
    found = _COMMAND.match(text)
    return None if found is None else (fold(found[1]), bare(found[2]))


def read_number(kind: type[Number], text: str) -> Number:
    """Parse a number as users write it: in any of the usual digits, with or without thousands separators.

    Raises:
        ValueError: the text is not a number. `int` and `float` alone would accept "1_2" and "nan".
    """
    folded = fold(text).replace("\N{ARABIC DECIMAL SEPARATOR}", ".")
    if kind is int:
        folded = folded.translate(_THOUSANDS)
    if not _NUMBER.fullmatch(folded) or (kind is int and "." in folded):
        raise ValueError
    return kind(folded.replace("\N{ARABIC THOUSANDS SEPARATOR}", ""))

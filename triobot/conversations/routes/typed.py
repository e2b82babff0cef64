"""What people type: when two words are one, when something is a number, and what is a command.

Phones put marks around what is copied, keyboards have digits and letters of their own: whoever types sees
none of that. Nothing here changes what a conversation is given; it is for comparing.
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
"""What a parser raises at a text that isn't what it reads, that it doesn't find, or that nests too deep."""

_DIGITS: Final = {ord(digit): str(unicodedata.digit(digit)) for digit in "۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩"}
_FOLDED: Final = _DIGITS | {
    ord("ي"): "ی",
    ord("ى"): "ی",
    ord("ك"): "ک",
    ord("ة"): "ه",
    0x0640: None,  # the letter-stretching tatweel
}
# Category Cf, of Unicode 16; asking each character for its category takes ten times as long.
_FORMAT: Final = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_EMOJI: Final = "\u2190-\u2bff\U0001f000-\U0001faff"
# Within an emoji the joiner, and the tags of a flag, make another one of it: group 1 stays.
_UNSEEN: Final = re.compile(
    rf"([{_EMOJI}][\U000e0020-\U000e007e]+\U000e007f|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))|[{_FORMAT}]"
)
# What has a digit in it and is none, such as a superscript: normalization would make 102 of "10²".
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
# In a whole number only: elsewhere one person's thousands are another's fraction.
_THOUSANDS: Final = str.maketrans(",،", "٬٬")


def fold(text: str) -> str:
    """Make texts equal that people take for equal: digits, ي and ی, ك and ک, case, blanks, unseen marks.

    Examples:
        >>> int(fold("۱۲"))
        12
    """
    if text.isascii():
        return text.casefold().strip()
    # Twice: a joiner may stand between a letter and its mark, and case folding splits.
    return _plain(_plain(text).casefold()).strip()


def _plain(text: str) -> str:
    parts = _NO_DIGIT.split(seen(text.translate(_FOLDED)))
    return "".join(part if n % 2 else unicodedata.normalize("NFKC", part) for n, part in enumerate(parts))


def seen(text: str) -> str:
    """Leave out of a text what nobody sees: all of category Cf, but for what emojis are made of."""
    return _UNSEEN.sub(r"\1", text)


def bare(text: str) -> str:
    """Leave out blanks and unseen marks around a text."""
    return text.strip(_AROUND)


def read_command(text: str) -> tuple[str, str] | None:
    """Return what stands behind a text's slash, folded up to the first blank, and the rest; or None."""
    found = _COMMAND.match(text)
    return None if found is None else (fold(found[1]), bare(found[2]))


def read_number(kind: type[Number], text: str) -> Number:
    """Read what a person writes for a number, in any of the usual digits, with thousands apart or not.

    Raises:
        ValueError: it is none; the types alone would take "1_2" and "nan".
    """
    folded = fold(text).replace("\N{ARABIC DECIMAL SEPARATOR}", ".")
    if kind is int:
        folded = folded.translate(_THOUSANDS)
    if not _NUMBER.fullmatch(folded) or (kind is int and "." in folded):
        raise ValueError
    return kind(folded.replace("\N{ARABIC THOUSANDS SEPARATOR}", ""))

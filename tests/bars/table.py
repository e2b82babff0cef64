"""The bars: how much there may be of what makes the house hard to understand and slow.

This is the one table. `tests/test_bars.py` checks it. A commit that needs more raises a number here, and says
why in its message; one that gets along with less lowers it.
"""

from __future__ import annotations

from typing import Final

MOST: Final = {
    # Lines without docstrings, comments and what is blank. What a bot loads is what a reader of the core has
    # before him: see `loading`.
    "code lines": 51_630,
    "code lines that a bot loads": 29_982,
    "code lines of conversations and engine": 11_689,
    "code lines of the largest class": 407,
    "methods of the class with most": 36,
    # What the bot enters from the request to the settled write. See `ways`.
    "modules that an answer enters": 68,
    "classes that an answer enters": 64,
    "modules that an answer after a restart enters, up to a charge": 93,
    "classes that an answer after a restart enters, up to a charge": 85,
    # In the loop's thread, Trio's and C's included. Neither the machine's speed nor its load changes the
    # count; two counts of `ask` differ by one in a hundred. See `calls`.
    "calls of an echo": 805,
    "calls of a turn of `ask`": 935,
    # Files that reach one another by imports, those under TYPE_CHECKING included.
    "files in import circles": 0,
    # Names that mean several classes; a leading underscore makes no other name.
    "class names used twice": 5,
}

"""The bars: limits on counts that make triobot hard to understand or slow.

`tests/test_bars.py` checks this table. A commit that exceeds a limit raises the number here, and its message
gives the reason. A commit that lowers a count also lowers the limit.
"""

from __future__ import annotations

from typing import Final

MOST: Final = {
    # Lines without docstrings, comments and blank lines. `loading` finds the code that a bot loads.
    "code lines": 51_630,
    "code lines that a bot loads": 29_982,
    "code lines of conversations and engine": 11_689,
    "code lines of the largest class": 407,
    "methods of the class with most": 36,
    # From the event's request to the write that ends the event's work. See `ways`.
    "modules that an answer enters": 68,
    "classes that an answer enters": 64,
    "modules that an answer after a restart enters, up to a charge": 93,
    "classes that an answer after a restart enters, up to a charge": 85,
    # In the event loop's thread, with calls of Trio and of C functions. The count depends neither on the
    # machine's speed nor on its load; two counts of `ask` differ by 1 %. See `calls`.
    "calls of an echo": 805,
    "calls of a turn of `ask`": 935,
    # Files that reach one another by imports, including imports under TYPE_CHECKING.
    "files in import circles": 0,
    # Names that several classes have; a leading underscore doesn't count.
    "class names used twice": 5,
}

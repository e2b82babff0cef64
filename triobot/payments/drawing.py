"""The ledger's table as a page for people, drawn from the rows that the code reads.

``python -m triobot.payments.drawing`` prints it; the page in the documentation is compared with this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from .entry import STATES
from .facts import FACTS
from .table import OUTCOMES, TABLE, WHEN, Due, Row, Tell

_HEAD = """# The ledger

A payment is a row in the store, written before its button or invoice is sent. It moves only as the table
says, each time in one transaction, and what is due is done only after that. What the table doesn't list is
refused, counted and alarmed.

Three laws. What is known to be captured is never verified again. No `error` of verify is believed without an
inquiry. A payment is watched until 75 minutes after its button has gone.

This page is drawn from the rows that the code reads: `python -m triobot.payments.drawing`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return (
        "\n".join([_HEAD, *_words("States", STATES.items()), *_words("Facts", FACTS.items()), *_moves()])
        + "\n"
    )


def _words(title: str, words: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| | |\n|---|---|"
    yield from (f"| `{word}` | {meaning} |" for word, meaning in words)
    yield ""


def _moves() -> Iterator[str]:
    yield "## Moves\n"
    yield "| in | when | then | to do | a waiting conversation gets | alarm |\n|---|---|---|---|---|---|"
    for row in TABLE:
        cells = (
            ", ".join(row.states),
            ", ".join(row.facts),
            row.next or "stays",
            "; ".join([*_taken(row), *map(_with_condition, row.due)]),
            OUTCOMES[row.outcome] if row.outcome else "",
            "; ".join(map(_with_condition, row.tell)),
        )
        yield f"| {' | '.join(cells)} |"


def _taken(row: Row) -> Iterator[str]:
    match row.taker:
        case "late":
            yield "whoever was named for late money takes it"
        case "handler":
            yield "the aside takes it"
        case "somebody":
            yield "the aside takes it, if nobody would"
        case "heir":
            yield "the aside takes it, unless nobody was to"
        case None:
            pass


def _with_condition(what: Due | Tell) -> str:
    word = what.duty.replace("_", " ") if isinstance(what, Due) else f"`{what.kind}`"
    return f"{word} {WHEN[what.when]}".strip()


if __name__ == "__main__":
    sys.stdout.write(page())

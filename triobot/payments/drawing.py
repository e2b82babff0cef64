"""The ledger's table, and the kinds of alarms, as pages for people, drawn from what the code reads.

``python -m triobot.payments.drawing`` prints the first, and with ``alarms`` the second; the pages in the
documentation are compared with this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from ..alarm_kinds import ABOUT
from .entry import STATES
from .facts import FACTS
from .table import OUTCOMES, TABLE, WHEN, Due, Row, Tell

_HEAD = """# The ledger

A payment is a row in the store, written before its button or invoice is sent. It moves only as the table
says, each time in one transaction, and what is due is done only after that. What the table doesn't list is
refused, counted and alarmed.

Three laws. What is known to be captured is never verified again. No `error` of verify is believed without an
inquiry. A payment is watched until 75 minutes after its button has gone, and a day longer if it may be on the
screen twice.

This page is drawn from the rows that the code reads: `python -m triobot.payments.drawing`.
"""


_ALARMS = """# Alarms

An alarm is a row in the store: one for each thing, however often it goes wrong. It is written to the log,
handed to `@bot.on_alarm` at least once, and repeated every hour until you have acknowledged it
(`triobot payments acknowledge`), or what it warned of is over. `REF` stands for the payment's number, which
each alarm names.

This page is drawn from the list that the code reads: `python -m triobot.payments.drawing alarms`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return (
        "\n".join([_HEAD, *_words("States", STATES.items()), *_words("Facts", FACTS.items()), *_moves()])
        + "\n"
    )


def alarms() -> str:
    """The page about alarms, in Markdown."""
    rows = (
        f"## `{kind}`\n\n{about.happened}\n\n- **At risk:** {about.risk}\n- **Do:** {about.act}\n"
        for kind, about in ABOUT.items()
    )
    return "\n".join([_ALARMS, *rows])


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
    sys.stdout.write(alarms() if "alarms" in sys.argv[1:] else page())

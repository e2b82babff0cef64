"""The ledger's table, and the kinds of alarms, as pages for people, drawn from what the code reads.

``python -m tests.payments.drawing`` prints the first, and with ``alarms`` the second; the pages in the
documentation are compared with this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from triobot.base.alarm_kinds import ABOUT, About
from triobot.payments.entry import STATES
from triobot.payments.facts import FACTS
from triobot.payments.table import OUTCOMES, TABLE, WHEN, Due, TellOperator, Transition

_HEAD = """# The ledger

A payment is a row in the store, written before its button or invoice is sent. It moves only as the table
says, each time in one transaction; only after that triobot does what is due. A fact that the table doesn't
list for a state is refused and counted, and raises an alarm.

There are three laws. A payment that is known to be captured is never verified again. No `error` of verify is
believed, and no lost answer followed by a verify, without an inquiry; if none is answered for half an hour,
it is verified all the same. A payment is watched until 75 minutes after its button has gone, and a day longer
if it may be on the screen twice.

This page is drawn from the rows that the code reads: `python -m tests.payments.drawing`.

![The states of a payment, and the facts that move it. The usual way: prepared, sending, open, check,
verifying, verified, delivered, settled. Below, each move is a row](images/payment.svg)

A frame stands for all states in it. What operators do and what a restored backup brings is not in the
picture; each is a row of [the table](#moves).
"""


_DUTIES: Final = """\
What is *to do* is done once the move is durable. *Send* shows the button or sends the invoice. *Verify* asks
the platform to capture. *Inquire* asks it what it knows, and takes nothing. *Examine* verifies, and inquires
after every answer but "verified". *Remove* takes the button off the user's screen. *Deliver* gives the
payment to its aside. *Offer top up* shows the user how to put money into the wallet.
"""

_TOGETHER_HEAD = """## What is durable with what

A conversation's move of its payment is stored in the transaction that records what the conversation did. So a
crash leaves both or neither:
"""

_TOGETHER: Final = (
    (
        "what happens",
        "shares its transaction with",
    ),
    (
        "`made`, `send_begun`",
        "the record of the payment's number, which is durable before the button or invoice leaves",
    ),
    (
        "`send_ok`, `send_refused`, `send_never_left`, `send_unknown`",
        "the answer that is kept for the conversation; with nothing, if the conversation is over by then",
    ),
    (
        "`delivered`",
        "the row of the inbox that begins the aside",
    ),
    (
        "`taker_gone` of a charge that is left, or whose button was exchanged",
        "the record of what ended or exchanged it",
    ),
    (
        "`settled` or `handler_failed` at the end of the aside",
        "that end, and the answer of the charge that waits for it; with `continue_as`, the beginning of what"
        " goes on",
    ),
    (
        "`callback`, `declined_retry`, `declined_final`",
        "the deletion of the callback's row in the inbox",
    ),
)

_APART_HEAD = """
A conversation's move is decided in that very transaction, from the row as it is then, so a callback that
comes in between doesn't make it stale. All other moves go by compare-and-set: if the row has moved since the
ledger read it, the ledger reads it again. A move that is no longer possible does nothing: if the aside has a
paid payment by then, the end of the charge gives up nothing. A step of an aside asks the ledger before it
gives anything: if an operator has the money by now, the step raises `PaymentHandedOverError`.

The store refuses such a transaction in two cases: the number is taken already, or the payment of an aside has
moved. The first case stops the conversation that drew the number; after the next start the conversation goes
on from before the draw. The second case stops the delivery, and the ledger looks at the payment again. The
store refuses no other part of the same commit.

Everything else is stored by itself, and repeating it after a crash changes nothing:
"""

_APART: Final = (
    (
        "what happens",
        "why by itself",
    ),
    (
        "`verify_begun`",
        "it has to be durable before the request, and no conversation's record brings it about",
    ),
    (
        "the answers of verify and inquiry, `removed`, `remove_failed`",
        "they are the platform's; by its row the payment is asked about again, and after a verify the inquiry"
        " goes first. The conversation is told once they are durable",
    ),
    (
        "what clocks bring",
        "the row says when it is due",
    ),
    (
        "`restart`, `restored`, `clock_set_back`",
        "they come at the start, before any conversation is there; only payments that the last process still"
        " had to ask about are taken up beside conversations",
    ),
    (
        "`stood_still`, `clock_set_forward`",
        "the clock brings them while the program runs",
    ),
    (
        "`parked`",
        "it changes nothing but what an operator knows; each start says it again",
    ),
    (
        "`taker_gone` and `handler_failed` of what is ended without its code: parked, or not durable",
        "only the code knew which payments it had; so the ledger looks for them by their owner, and again at"
        " each start",
    ),
    (
        "what operators do, `forgotten`",
        "the operator gets the answer once the move is durable",
    ),
)

_ALARMS = """# Alarms

An alarm is a row in the store: one for each thing, however often it goes wrong. It is written to the log, and
handed to `@bot.on_alarm` at least once. There are three sorts:

- An alarm about a state of the bot (**Ends** says when that is over) is repeated about every hour while the
  state lasts. The bot looks every five minutes. When the state is over the alarm ends by itself: it leaves
  all lists, and a line in the log says so. `@bot.on_alarm` isn't called for that. If the state comes back,
  the alarm is raised anew.
- An alarm about something that happened (**Told once**) stays in `triobot alarms` until you have acknowledged
  it. It is told again only if the same happens again, an hour later or more.
- All others are about a payment. Such an alarm is repeated about every hour until what it warned of is over,
  where that can be known, or until you have acknowledged it.

`triobot alarms` lists open alarms, with what to do. `triobot alarms acknowledge` ends any of them, by
`--kind KIND`, `--key KEY` or `--all`; `triobot payments acknowledge` only those about payments. `REF` stands
for the payment's number, which each alarm names. [Alarms reach people](run.md#alarms-reach-people) by a
POST, in a chat, or by a function of yours.

This page is drawn from the list that the code reads: `python -m tests.payments.drawing alarms`.
"""


def page() -> str:
    """Return the page about the ledger, in Markdown."""
    return (
        "\n".join(
            [
                _HEAD,
                *_words("States", STATES.items()),
                *_words("Facts", FACTS.items()),
                *_moves(),
                "",
                _TOGETHER_HEAD,
                *_rows(_TOGETHER),
                _APART_HEAD,
                *_rows(_APART),
            ]
        )
        + "\n"
    )


def alarms() -> str:
    """Return the page about alarms, in Markdown."""
    rows = (
        f"## `{kind}`\n\n{about.happened}\n\n- **At risk:** {about.risk}\n- **Do:** {about.act}\n"
        + _end(about)
        for kind, about in ABOUT.items()
    )
    return "\n".join([_ALARMS, *rows])


def _end(about: About) -> str:
    if about.once:
        return "- **Told once**, and again if it happens again.\n"
    stops = "- **Stops the bot's work:** `triobot status --check` ends with 5.\n" if about.stops else ""
    return (f"- **Ends:** {about.ends}\n" if about.ends else "") + stops


def _words(title: str, words: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| | |\n|---|---|"
    yield from (f"| `{word}` | {meaning} |" for word, meaning in words)
    yield ""


def _rows(table: Iterable[tuple[str, str]]) -> Iterator[str]:
    head, *rows = table
    yield f"| {' | '.join(head)} |\n|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _moves() -> Iterator[str]:
    yield "## Moves\n"
    yield _DUTIES
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


def _taken(row: Transition) -> Iterator[str]:
    match row.taker:
        case "late":
            yield "the aside takes it if `late=` says so"
        case "last":
            yield 'the aside takes it; with `late="refund"`, only if the next answer says that it is paid'
        case "once":
            yield "if nobody waits, the aside takes it from now on only if `late=` says so"
        case "once_more":
            yield "the same, unless this is new"
        case "handler":
            yield "the aside takes it"
        case "somebody":
            yield "the aside takes it, if nobody would"
        case "nobody":
            yield "nobody takes it"
        case None:
            pass


def _with_condition(what: Due | TellOperator) -> str:
    word = what.duty.replace("_", " ") if isinstance(what, Due) else f"`{what.kind}`"
    return f"{word} {WHEN[what.when]}".strip()


if __name__ == "__main__":
    sys.stdout.write(alarms() if "alarms" in sys.argv[1:] else page())

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

A payment is a row in the store, written before its button or invoice is sent. Each move of the row follows
this table, in one transaction; only then triobot does the work that is due. A fact that the table doesn't
list for a state is refused and counted, and raises an alarm.

There are three laws. A payment known as captured is never verified again. After a verify with `error` or a
lost answer, an inquiry comes before the next verify; if no inquiry is answered for half an hour, triobot
verifies without one. A payment is watched until 75 minutes after its button is removed, and a day longer
if it may be on the screen twice.

This page is generated from the rows that the code reads: `python -m tests.payments.drawing`.

![The states of a payment, and the facts that move it. The usual way: prepared, sending, open, check,
verifying, verified, delivered, settled. Below, each move is a row](images/payment.svg)

A frame stands for all states in it. The picture omits operators' requests and restored backups; each is a
row of [the table](#moves). In all tables here, *it* is the payment.
"""


_DUTIES: Final = """\
The work under *to do* begins once the move is durable. *Send* shows the button or sends the invoice. *Verify*
asks the platform to capture. *Inquire* asks the platform for the payment's state, and captures nothing.
*Examine* verifies, and inquires after every answer but "verified". *Remove* removes the button from the
user's screen. *Deliver* gives the payment to its aside. *Offer top up* shows the user how to top up the
wallet.
"""

_TOGETHER_HEAD = """## What is durable with what

A conversation's move of its payment shares a transaction with the record of the conversation's operation. So
a crash leaves both or neither:
"""

_TOGETHER: Final = (
    (
        "what happens",
        "in one transaction with",
    ),
    (
        "`made`, `send_begun`",
        "the record of the payment's number, which is durable before the button or invoice is sent",
    ),
    (
        "`send_ok`, `send_refused`, `send_never_left`, `send_unknown`",
        "the answer that is stored for the conversation; nothing, if the conversation has ended by then",
    ),
    (
        "`delivered`",
        "the row of the inbox that starts the aside",
    ),
    (
        "`taker_gone` of a charge that was left, or whose button was replaced",
        "the record of the event or deadline that ended or replaced it",
    ),
    (
        "`settled` or `handler_failed` at the end of the aside",
        "that end, and the answer of the waiting charge; with `continue_as`, the beginning of the next"
        " function",
    ),
    (
        "`callback`, `declined_retry`, `declined_final`",
        "the deletion of the callback's row in the inbox",
    ),
)

_APART_HEAD = """
That transaction reads the row and decides the move, so a callback in between doesn't make the move stale.
All other moves use compare-and-set: if the row has moved since the ledger read it, the ledger reads the row
again. A move that is no longer possible changes nothing: the end of a charge doesn't give up a payment that
the aside already has. A step of an aside first checks the ledger: if an operator has the money by now, the
step raises `PaymentHandedOverError`.

The store refuses such a transaction in two cases: the number exists already, or the payment of an aside has
moved. The first case stops the conversation that drew the number; after the next start the conversation
continues from before the draw. The second case stops the delivery, and the ledger reads the payment again.
The store refuses no other part of the same commit.

Every other fact has its own transaction, and repeating it after a crash changes nothing:
"""

_APART: Final = (
    (
        "what happens",
        "reason for its own transaction",
    ),
    (
        "`verify_begun`",
        "it must be durable before the request, and no conversation's record causes it",
    ),
    (
        "the answers of verify and inquiry, `removed`, `remove_failed`",
        "they are the platform's. If one is lost, triobot asks again because of the row, and after a"
        " verify the inquiry goes first. The conversation gets the answer once it is durable",
    ),
    (
        "facts of the clock",
        "the row has the due time",
    ),
    (
        "`restart`, `restored`, `clock_set_back`",
        "they come at the start, before any conversation is in memory; only payments that the last process"
        " had to ask about are processed beside conversations",
    ),
    (
        "`stood_still`, `clock_set_forward`",
        "the clock causes them while the program runs",
    ),
    (
        "`parked`",
        "it only informs an operator; each start repeats it",
    ),
    (
        "`taker_gone` and `handler_failed` of a conversation that ends without running (parked, not durable)",
        "only its code knew its payments; so the ledger finds them by their owner, and again at each start",
    ),
    (
        "operators' requests, `forgotten`",
        "the operator gets the answer once the move is durable",
    ),
)

_ALARMS = """# Alarms

An alarm is a row in the store. Each pair of a kind and a key has one row, however often the fault happens.
A key is, for example, a payment or a chat. triobot logs the alarm, and passes it to `@bot.on_alarm` at least
once. There are three sorts of alarms:

- An alarm about a state of the bot has a line **Ends**, which names the end of the state. While the state
  lasts, triobot sends the alarm again about every hour. The bot checks every five minutes. At the end of the
  state, the alarm ends by itself: it leaves all lists, and the bot logs a line, but does not call
  `@bot.on_alarm`. If the state comes back, triobot raises the alarm again.
- An alarm about a single fact has a line **Sent once**. The alarm stays in `triobot alarms` until you
  acknowledge it. triobot sends it again only if the fact happens again an hour later or more.
- All other alarms are about a payment. triobot sends such an alarm again about every hour, until its risk is
  over or you acknowledge it. triobot can't always detect that the risk is over.

`triobot alarms` lists open alarms, each with a remedy. `triobot alarms acknowledge` ends any of them, by
`--kind KIND`, `--key KEY` or `--all`. `triobot payments acknowledge` ends only alarms about payments. `REF`
stands for the payment's number, which each alarm names. Alarms [reach people](run.md#alarms-reach-people) by
a POST, in a chat, or by your own function.

This page is generated from the list that the code reads: `python -m tests.payments.drawing alarms`.
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
        return "- **Sent once**, and again only if it happens again.\n"
    stops = "- **Stops the bot's work:** `triobot status --check` exits with code 5.\n" if about.stops else ""
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
            yield 'the aside takes it with `late="deliver"`'
        case "last":
            yield 'the aside takes it; with `late="refund"`, only if the next answer confirms the payment'
        case "once":
            yield 'from now on, without a waiting conversation, the aside takes it only with `late="deliver"`'
        case "once_more":
            yield 'as for `inquire_early`, unless this is the first "verified" since another answer'
        case "handler":
            yield "the aside takes it"
        case "somebody":
            yield "if no waiting conversation takes the payment, the aside does"
        case "nobody":
            yield "no code takes it"
        case None:
            pass


def _with_condition(what: Due | TellOperator) -> str:
    word = what.duty.replace("_", " ") if isinstance(what, Due) else f"`{what.kind}`"
    return f"{word} {WHEN[what.when]}".strip()


if __name__ == "__main__":
    sys.stdout.write(alarms() if "alarms" in sys.argv[1:] else page())

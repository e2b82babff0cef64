"""The ledger's table, and the kinds of alarms, as pages for people, drawn from what the code reads.

``python -m tests.payments.drawing`` prints the first, and with ``alarms`` the second; the pages in the
documentation are compared with this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from tests.payments.table_words import FACTS, OUTCOMES, WHEN
from triobot.base.alarm_kinds import ABOUT, About
from triobot.payments.entry import STATES
from triobot.payments.table import TABLE, Due, TellOperator, Transition

_HEAD = """# The ledger

A payment is a row in the store. triobot writes this row before it sends the button or invoice. When a fact
comes, one transaction moves the row to the state in [this table](#moves). Then triobot does the work that the
table lists. If the table has no row for a fact in a state, triobot changes nothing, counts the fact, and
raises an alarm.

There are three laws. First, triobot never verifies a payment again once it knows that the money is
captured. Second, after a verify that was answered `error` or not at all, triobot inquires before the next
verify. If no inquiry is answered for half an hour, triobot verifies without one. Third, triobot watches a
payment until 75 minutes after the removal of its button. If the button may be on the screen twice, triobot
watches the payment a day longer.

This page is generated from the rows that the code reads: `python -m tests.payments.drawing`.

![The states of a payment, and the facts that move it. The usual way: prepared, sending, open, check,
verifying, verified, delivered, settled. Below, each move is a row](images/payment.svg)

An arrow at a frame is valid for all states in the frame. The picture omits operators' requests and restored
backups. On this page, *the aside* is the aside for the payment's item.
"""


_DUTIES: Final = """\
`inquire_ok` needs one of two proofs of the capture. The first proof has three answers: an inquiry is answered
`verified`, then a verify `error`, then an inquiry `verified`. The proof counts only if no money can have gone
back before the verify. The second proof is only for a payment without a taker: an answer `verified` once the
user can't pay any more, and uncaptured money has gone back. If the button can't be removed, a day of such
answers without a callback is enough.

The work under *to do* begins once the move is durable. *Send* shows the button or sends the invoice. *Verify*
asks the platform to capture the money. *Inquire* asks the platform for the payment's state, and captures
nothing. *Examine* verifies, and inquires after every answer but `verified`. *Remove* deletes the button from
the user's screen. *Deliver* passes the payment to the aside. *Offer a top up* shows the user how to top up
the wallet. The *taker* is the conversation or aside that will get the payment after its capture. triobot
doesn't verify a payment without a taker.
"""

_TOGETHER_HEAD = """## What is durable with what

If a conversation moves its payment, the move and the record of the conversation's operation are one
transaction. So a crash leaves both or neither:
"""

_TOGETHER: Final = (
    (
        "what happens",
        "in one transaction with",
    ),
    (
        "`made`, `send_begun`",
        "the record of the payment's number. Both are durable before the button or invoice is sent",
    ),
    (
        "`send_ok`, `send_refused`, `send_never_left`, `send_unknown`",
        "the answer that is stored for the conversation. If the conversation has ended, the move is alone",
    ),
    (
        "`delivered`",
        "the row of the inbox that starts the aside",
    ),
    (
        "`taker_gone`, when a charge ended",
        "the record of the event or deadline that ended the charge",
    ),
    (
        "`settled` or `handler_failed` at the end of the aside",
        "the aside's end, and the answer of the waiting charge. After `continue_as`, the start of the next"
        " function",
    ),
    (
        "`callback`, `declined_retry`, `declined_final`",
        "the deletion of the callback's row in the inbox",
    ),
)

_APART_HEAD = """
Every transaction itself reads the row and decides the move. So a callback at the same time can't make the
move wrong. A move that is no longer possible changes nothing. For example, the end of a charge doesn't give
up a payment that the aside already has. Each step of an aside first checks the ledger. If an operator has
closed the payment, the step raises `PaymentHandedOverError`.

The store refuses such a transaction in two cases. In the first case, another payment already has the new
payment's random number. Then the charging conversation stops. After the next start, this conversation
continues and gets another number. In the second case, the state of the aside's payment has changed. Then the
delivery stops, and the ledger reads the payment again. The store refuses no other part of the same commit.

Every other fact has its own transaction. If such a fact is repeated after a crash, nothing changes:
"""

_APART: Final = (
    (
        "what happens",
        "reason for its own transaction",
    ),
    (
        "`verify_begun`",
        "the fact must be durable before the request, and no conversation's record causes the fact",
    ),
    (
        "the answers of verify and inquiry, `removed`, `remove_failed`",
        "these facts come from the platform. If an answer is lost, the row makes triobot ask again. After a"
        " verify, triobot inquires first. The conversation gets an answer once the answer is durable",
    ),
    (
        "facts of the clock",
        "the row has the due time, so the fact can't be lost",
    ),
    (
        "`restart`, `restored`",
        "these facts come at the start, before any conversation is in memory. If the last process still "
        "had to ask the platform about a payment, the payment gets the fact later",
    ),
    (
        "`stood_still`, `clock_set`",
        "the clock causes these facts. triobot notices them at the start or while it runs",
    ),
    (
        "`parked`",
        "the fact only raises an alarm, and each start of the bot records the fact again",
    ),
    (
        "`taker_gone` and `handler_failed` of a conversation that ends without running its code, such as a "
        "parked conversation",
        "only the conversation's code knew its payments. So the ledger searches the payments by their "
        "owner, now and at each start",
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
`--kind KIND`, `--key KEY` or `--all`. `REF`
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
            _sentences([*_taken(row), *map(_with_condition, row.due)]),
            OUTCOMES[row.outcome] if row.outcome else "",
            ". ".join(map(_with_condition, row.tell)),
        )
        yield f"| {' | '.join(cells)} |"


def _taken(row: Transition) -> Iterator[str]:
    match row.taker:
        case "late":
            yield 'with `late="deliver"`, the aside becomes the taker'
        case "last":
            yield "the aside becomes the taker"
            yield 'with `late="refund"`, the aside stays the taker only for one last verify'
        case "once":
            yield 'if the aside is the taker and `late="refund"`, the payment has no taker from now on'
        case "once_more":
            yield (
                'if the aside is the taker, `late="refund"` and this is not the first `verified`, the '
                "payment has no taker from now on"
            )
        case "handler":
            yield "the aside becomes the taker"
        case "somebody":
            yield "if the payment has no taker, the aside becomes the taker"
        case "nobody":
            yield "the payment has no taker from now on"
        case None:
            pass


_DUTY: Final = {"remove": "remove the button", "offer_top_up": "offer a top up"}
"""Words for duties whose names are not words."""


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def _with_condition(what: Due | TellOperator) -> str:
    word = _DUTY.get(what.duty, what.duty) if isinstance(what, Due) else f"`{what.kind}`"
    return f"{word} {WHEN[what.when]}".strip()


if __name__ == "__main__":
    sys.stdout.write(alarms() if "alarms" in sys.argv[1:] else page())

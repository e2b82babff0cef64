"""``triobot payments``: list payments, and verify, settle or correct them."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, cast

from ..operator.routes import Answer
from ..payments.entry import STATES
from ..runtime.settings import Settings
from .arguments import add_actions, add_json, chat, positive
from .consulting import consult, instant, print_answer, settings_of

DETAILS: Final = """\
It asks a running bot; while none runs, it uses the store.
REF is a payment's number, as alarms name it, or an invoice's own number.

examples:
  triobot payments list --state verified --state delivered
  triobot payments list --older 30                       (minutes)
  triobot payments show 1234567890123456
  triobot payments verify 1234567890123456               ask the platform at once
  triobot payments resolve 1234567890123456              paid back by hand: nothing is owed
  triobot payments adopt 50012 1001 250000               an invoice whose number was lost
  triobot payments export > payments.csv
  triobot payments totals --days 7
"""

_ON_ALL: Final = {
    "list": "list payments in the order of their numbers",
    "export": "write all payments as a table (CSV)",
    "totals": "print the captured amounts, day by day",
    "adopt": "record an invoice whose number was lost",
}
_ON_ONE: Final = {
    "show": "show a payment, with its history",
    "verify": "verify a payment at once, which captures the money",
    "inquire": "ask the platform for a payment's state, and capture nothing",
    "redeliver": "deliver captured money to its aside once more",
    "settle": "record that the goods were given by hand",
    "resolve": "record that the money was paid back by hand: nothing is owed",
}
_COLUMNS: Final = (
    "ref",
    "invoice",
    "kind",
    "chat",
    "amount",
    "currency",
    "state",
    "taker",
    "made_at",
    "hinted_at",
    "verify_by",
    "captured",
    "captured_at",
    "settled_at",
)
_PAGE: Final = 500
_DAY: Final = 24 * 60 * 60 * 1000


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, {**_ON_ALL, **_ON_ONE})
    add_json(parser, *actions.values())
    for name in _ON_ONE:
        actions[name].add_argument("ref", metavar="REF", help="a payment's number, or an invoice's own")
    for name in ("list", "export"):
        listing = actions[name]
        listing.add_argument(
            "--state",
            action="append",
            default=[],
            choices=sorted(STATES),
            metavar="STATE",
            help=f"only those in this state, repeatable: {', '.join(STATES)}",
        )
        listing.add_argument("--chat", metavar="CHAT", type=chat, help="only this chat's")
        listing.add_argument("--older", metavar="MINUTES", type=positive, help="only those made before that")
    actions["list"].add_argument(
        "--limit", metavar="N", type=positive, default=100, help="so many at most (100)"
    )
    actions["totals"].add_argument(
        "--days", metavar="N", type=positive, default=30, help="so many days back (30)"
    )
    adopt = actions["adopt"]
    adopt.add_argument("number", metavar="NUMBER", help="the platform's number of the invoice")
    adopt.add_argument("chat", metavar="CHAT", type=chat, help="whose it is")
    adopt.add_argument("amount", metavar="AMOUNT", type=positive, help="what it is about, in rials")
    adopt.add_argument("--coin", action="store_true", help="the amount is in coin")
    adopt.add_argument("--button", action="store_true", help="the number is a button's")


def run(arguments: argparse.Namespace) -> None:
    answers = _answers(settings_of(arguments), arguments)
    print_answer(answers, _lines(arguments.action, answers), as_json=arguments.json)


def _answers(settings: Settings, arguments: argparse.Namespace) -> Iterator[Answer]:
    """Yield the answers as JSON values; times are in milliseconds."""
    match arguments.action:
        case "list" | "export":
            yield from _payments(settings, arguments, getattr(arguments, "limit", None))
        case "totals":
            yield from cast("list[Answer]", _ask(settings, _about_days(int(arguments.days)))["totals"])
        case _:
            yield _ask(settings, _question(arguments))


def _question(arguments: argparse.Namespace) -> Answer:
    if arguments.action == "adopt":
        return _adoption(arguments)
    return {"ask": f"payments.{arguments.action}", "ref": arguments.ref}


def _lines(action: str, answers: Iterator[Answer]) -> Iterator[str]:
    match action:
        case "list":
            yield from map(_line, answers)
        case "export":
            _export(answers)
        case "totals":
            yield from map(_total, answers)
        case _:
            yield from _about_one(action, next(answers))


def _about_one(action: str, answer: Answer) -> Iterator[str]:
    match action:
        case "inquire":
            amount = "" if answer["amount"] is None else f", {answer['amount']}"
            yield f"the platform says: {answer['said']}{amount}"
        case "show":
            yield from _shown(answer)
        case _:
            yield _line(_one(answer))


def _ask(settings: Settings, question: Answer) -> Answer:
    (answer,) = consult(settings, question)
    return answer


def _one(answer: Answer) -> Answer:
    return cast("Answer", answer["payment"])


def _payments(settings: Settings, arguments: argparse.Namespace, limit: int | None) -> Iterator[Answer]:
    after: object = None
    left = limit
    before = None
    if arguments.older is not None:
        before = int(datetime.now(UTC).timestamp() * 1000) - int(arguments.older) * 60_000
    while left is None or left > 0:
        question = {
            "ask": "payments.list",
            "states": arguments.state,
            "chat": arguments.chat,
            "before": before,
            "after": after,
            "limit": _PAGE if left is None else min(left, _PAGE),
        }
        page = cast("list[Answer]", _ask(settings, question)["payments"])
        if not page:
            return
        yield from page
        after = page[-1]["ref"]
        left = None if left is None else left - len(page)


def _line(payment: Answer) -> str:
    until = f", verify by {instant(payment['verify_by'])}" if payment["verify_by"] else ""
    number = f" (invoice {payment['invoice']})" if payment["invoice"] else ""
    return (
        f"{payment['ref']}{number}  {payment['state']:10} {payment['amount']:>12,} {payment['currency']:4}"
        f"  chat {payment['chat']}  {instant(payment['made_at'])}{until}"
    )


def _shown(answer: Answer) -> Iterator[str]:
    for name, value in _one(answer).items():
        moment = name.endswith("_at") and value is not None
        yield f"{name:16} {instant(value) if moment else value}"
    yield "history:"
    for move in cast("list[Answer]", answer["history"]):
        yield f"  {move['revision']:4}  {instant(move['at'])}  {move['fact']:18} {move['state']}"


def _adoption(arguments: argparse.Namespace) -> Answer:
    return {
        "ask": "payments.adopt",
        "number": arguments.number,
        "chat": arguments.chat,
        "amount": arguments.amount,
        "currency": "coin" if arguments.coin else "IRR",
        "kind": "button" if arguments.button else "invoice",
    }


def _export(payments: Iterator[Answer]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(_COLUMNS)
    for payment in payments:
        writer.writerow(
            instant(payment[name]) if name.endswith(("_at", "_by")) else _cell(payment[name])
            for name in _COLUMNS
        )


def _cell(value: object) -> object:
    """Add a prefix to a text that a spreadsheet would treat as a formula. A text such as an invoice's number
    comes from the platform.
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def _about_days(days: int) -> Answer:
    until = (int(datetime.now(UTC).timestamp() * 1000) // _DAY + 1) * _DAY
    return {"ask": "payments.totals", "since": until - days * _DAY, "until": until}


def _total(total: Answer) -> str:
    day = date(1970, 1, 1) + timedelta(days=cast("int", total["day"]))
    return f"{day}  {total['group']:14} {total['count']:6} {total['amount']:>16,}"

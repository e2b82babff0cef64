"""Implements ``triobot journal``: list conversations; show, export and check journals; end or retry parked
conversations.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, cast

import trio

from ..conversations.revival.stored import sites_of
from ..errors import ConfigError
from ..operator.api import LONGEST_WORDS
from ..operator.routes import Answer
from ..operator.views import redacted, worded
from ..runtime.settings import Settings
from ..seams.rooms import place_name
from ..wire.ids import ChatId
from .consulting import consult, instant, moment, print_answer, settings_of
from .exported import code_of_journal
from .journal_check import accept, check, lines_of_sites
from .loading import load_bot
from .terminal import harmless


def run(arguments: argparse.Namespace) -> None:
    if arguments.action in ("check", "accept"):
        target = arguments.target or arguments.bot
        if target is None:
            raise ConfigError(f"which code? triobot journal {arguments.action} MODULE:BOT")
        arguments.bot = target
        (_check if arguments.action == "check" else _accept)(arguments, target)
        return
    if arguments.action in ("retry", "end"):
        _settle(arguments)
        return
    if arguments.action == "list" and arguments.by is not None:
        if arguments.bot is None:
            raise ConfigError("lines of which code? add --bot MODULE:BOT")
        look = partial(check, as_json=arguments.json, by_line=True)
        trio.run(look, load_bot(arguments.bot), settings_of(arguments), arguments.bot)
        return
    if arguments.action == "list":
        given = {"chat_id": arguments.chat, "after": arguments.after, "limit": arguments.limit}
        rows = consult(settings_of(arguments), {"ask": "journals.list", **given, "crashed": True})
        print_answer(rows, map(_standing, rows), as_json=arguments.json)
        return
    answer = _journal(settings_of(arguments), arguments.number)
    export = arguments.action == "export"
    if export and not arguments.redact:
        answer += code_of_journal(answer, consult(settings_of(arguments), {"ask": "journals.code"}))
    if export or arguments.json:
        for one in answer:
            print(json.dumps(redacted(one) if export and arguments.redact else one))
        return
    for line in _shown(answer, lines_of_sites(consult(settings_of(arguments), {"ask": "journals.code"}))):
        print(harmless(line))


def _journal(settings: Settings, number: int) -> list[Answer]:
    """Return the journal of conversation `number`, or else of the only conversation in chat `number`."""
    try:
        return consult(settings, {"ask": "journals.show", "conversation": number})
    except ConfigError:
        found = consult(settings, {"ask": "journals.list", "chat_id": number, "crashed": True})
        numbers = [str(one["conversation"]) for one in found]
        if len(numbers) > 1:
            raise ConfigError(f"chat {number} has several conversations: {', '.join(numbers)}") from None
        if not numbers:
            raise
    return consult(settings, {"ask": "journals.show", "conversation": int(numbers[0])})


def _accept(arguments: argparse.Namespace, target: str) -> None:
    settings, bot = settings_of(arguments), load_bot(target)
    found = trio.run(partial(accept, bot, settings, arguments.code, do=arguments.yes))
    if arguments.json:
        print(json.dumps({"code": arguments.code, "concerned": len(found), "done": arguments.yes}))
        return
    if not found:
        raise ConfigError(f"no conversation would be parked for two lines of the code {arguments.code}")
    for (route, parting), count in Counter(found).most_common():
        for line in (f"{count} of {route}", f"    recorded  {parting.was}", f"    now       {parting.now}"):
            print(harmless(line))
    said = "go on as if the two were one" if arguments.yes else "would go on; say --yes to do it"
    print(f"{len(found)} conversations {said}")


def _check(arguments: argparse.Namespace, target: str) -> None:
    look = partial(check, sample=arguments.sample, processes=arguments.processes, as_json=arguments.json)
    if not trio.run(look, load_bot(target), settings_of(arguments), target):
        raise SystemExit(1)


def _settle(arguments: argparse.Namespace) -> None:
    """Count the chosen parked conversations. With a number or ``--yes``, end or retry these conversations."""
    end, number = arguments.action == "end", arguments.number
    chosen = {
        "conversation": number,
        "chat_id": arguments.chat,
        "route": arguments.route,
        "because": arguments.reason,
    }
    if not any(value is not None for value in chosen.values()):
        raise ConfigError("which ones? a NUMBER, --chat CHAT, --route NAME or --reason TEXT")
    if end and len(arguments.say) > LONGEST_WORDS:
        raise ConfigError(f"--say must be at most {LONGEST_WORDS} characters")
    does = number is not None or arguments.yes
    if does and end:
        chosen["say"] = arguments.say
    ask = f"parked.{arguments.action}" if does else "parked.count"
    answer = consult(settings_of(arguments), {"ask": ask, **chosen})
    lines = _settled(answer, "ended" if end else "tried again", does=does)
    print_answer(answer, lines, as_json=arguments.json)


def _settled(answer: list[Answer], what: str, *, does: bool) -> Iterator[str]:
    *groups, total = answer
    for group in groups:
        yield f"{group['count']:>7}  {group['route']}: {group['because']}"
    if does:
        known = f" ({total['parked']} are parked)" if total["done"] != total["parked"] else ""
        yield f"{total['done']} conversations are being {what}{known}"
    elif total["parked"]:
        yield f"{total['parked']} conversations would be {what}; say --yes to do it"
    else:
        yield "no such conversation is parked"


def _standing(row: Answer) -> str:
    record = cast("Answer | None", row["last_record"])
    last = "-" if record is None else " ".join(str(part) for name, part in record.items() if name != "at")
    room = cast("list[str]", row.get("room") or [])
    state = _state(row)
    place = place_name(ChatId(cast("int", row["chat_id"])), (room[0], room[1]) if room else None)
    return (
        f"{row['conversation']}  {place}  {row['kind']} {row['route']}"
        f"  {state}"
        f"  records {row['position']}  last {last}"
        f"  begun {instant(row['started_at'])}"
    )


def _state(row: Answer) -> str:
    if row["ended_at"] is not None:
        error = row["error"]
        return f"{'ended' if error is None else 'crashed'} {instant(row['ended_at'])}" + (
            "" if error is None else f" ({error})"
        )
    if row["parked_because"] is not None:
        return f"PARKED: {row['parked_because']}"
    if row["unfinished"]:
        return "at work"
    return "waits" if row["wake_at"] is None else f"waits until {instant(row['wake_at'])}"


def _shown(answer: list[Answer], lines: Mapping[int, str]) -> Iterator[str]:
    row, *rest = answer
    for name, value in row.items():
        if value is not None:
            yield f"{name}: {instant(value) if name.endswith('_at') else value}"
    yield ""
    rows = [{**worded(one), "line": lines.get(_site_of(one), "")} for one in rest]
    yield from _table([_HEAD, *map(_cells, rows)])


_HEAD: Final = ("n", "when", "what", "id", "kind", "line", "value")


def _site_of(row: Answer) -> int:
    sites = sites_of(json.loads(str(row["record"]))) if "record" in row else ()
    return sites[-1] if sites else 0


def _cells(row: Answer) -> tuple[str, ...]:
    at = row.get("at", row.get("intended_at"))
    value = row.get("value", "")
    if row.get("event") is not None:
        value = f"{value} (event {row['event']})"
    if row.get("failed"):
        value = f"failed: {value}"
    return (
        str(row.get("n", "")),
        moment(at),
        str(row.get("what", "Intended")),
        str(row.get("id", row.get("operation", ""))),
        str(row.get("kind", row.get("name", ""))),
        str(row["line"]),
        str(value).lstrip(),
    )


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD) - 1)]
    for row in rows:
        *narrow, last = row
        cells = [cell.ljust(width) for cell, width in zip(narrow, widths, strict=True)]
        yield "  ".join([*cells, last]).rstrip()

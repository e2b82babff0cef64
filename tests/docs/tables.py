"""Tables of the pages that say what the code says: settings, limits, commands, routes, metrics."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from triobot.base.limits import ServingLimits
from triobot.cli import COMMANDS, read_module
from triobot.conversations.routes.routing import ROWS
from triobot.operator.metrics import METRICS
from triobot.operator.routes import ROUTES
from triobot.runtime.settings import Settings
from triobot.webhook.limits import Limits

DOCS: Final = Path(__file__).parents[2] / "docs"
CONTROL: Final = DOCS.parent / "triobot" / "emulator" / "openapi.json"
_PART: Final = re.compile(r"(?s)(<!-- written: (\w+) -->\n).*?(<!-- end -->\n)")
_ENTRY: Final = re.compile(r"(?m)^        (?P<names>[a-z_]+(?:, [a-z_]+)*): (?P<text>.*(?:\n {12,}.*)*)")
_VARIABLE: Final = re.compile(r"``(TRIOBOT_\w+)(?:=1)?``")

_WORDS: Final = {
    "ignore": (
        "`bot.ignore`",
        "triobot counts and drops the event. With `say=` the chat gets that text",
    ),
    "block": (
        "the newest open `move_on_when` block with a filter that takes the event, in any conversation that "
        "takes this person's events",
        "the event ends the block",
    ),
    "interrupt": (
        "an interrupt",
        "the live conversation ends, and the interrupt becomes the live conversation",
    ),
    "aside": (
        "an aside",
        "the aside runs beside the live conversation",
    ),
    "question": (
        "an open question, if the event submits its form or presses its button",
        "the question's conversation gets the event",
    ),
    "wait": (
        "the newest open wait with a filter that takes the event. The waits of the sender's own "
        "conversations are tried first",
        "the waiting conversation gets the event, whether it is live or an aside",
    ),
    "parked": (
        "a parked conversation, if the event is a form or a press of a question's button",
        "triobot keeps the event until the conversation continues or ends. A press is answered with the "
        "text for parked conversations",
    ),
    "over": (
        "an ended or another member's question, if the event submits its form or presses its button",
        'the press is answered "expired". A press at another member\'s open question gets no answer',
    ),
    "live": (
        "the live conversation of the sender or of the chat",
        "if the conversation is busy, its mailbox keeps the event. If the conversation waits, `otherwise=` "
        "decides",
    ),
    "conversation": (
        "a `@bot.conversation`",
        "the conversation starts, and becomes the live conversation of the chat or the sender. A leave "
        "starts no conversation",
    ),
    "parked aside": (
        "a parked aside, if the event is a message or a press",
        "triobot keeps the event until the aside continues or ends, and answers with the text for parked "
        "conversations",
    ),
    "nobody": (
        "no route",
        'triobot counts the event. A press is answered "expired". A signal is kept',
    ),
}
"""Per row of the routing table: the taker of the event, and the result."""


def _entries(of: type) -> Iterator[tuple[list[str], str]]:
    """Yield the names and the text of each entry in a class's "Attributes"."""
    for found in _ENTRY.finditer((of.__doc__ or "").partition("Attributes:")[2].partition("\n\n")[0]):
        yield found["names"].split(", "), " ".join(found["text"].split())


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(int(value))
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _defaults(of: type, names: list[str]) -> str:
    fields = attrs.fields_dict(of)
    shown = [_shown(fields[name].default) for name in names]
    return "none" if set(shown) == {"none"} else ", ".join(shown)


def _code(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def settings() -> Iterator[str]:
    """Yield the variables that a bot reads."""
    yield from ("| variable | meaning | default |", "|---|---|---|")
    for names, text in _entries(Settings):
        variables = _VARIABLE.findall(text)
        if variables and names != ["limits"]:
            meaning = re.sub(r" ?\([^()]*``TRIOBOT_\w+[^()]*\)", "", text)
            meaning = re.sub(r"\((?:``TRIOBOT_\w+``,? ?(?:in octal)?)+\)", "", meaning)
            named = ", ".join(f"`{one}`" for one in dict.fromkeys(variables))
            yield f"| {named} | {_code(meaning)} | {_defaults(Settings, names)} |"


def limits() -> Iterator[str]:
    """Yield the limits of the webhook."""
    yield from ("| limit | meaning | default |", "|---|---|---|")
    told = {name: text for names, text in _entries(ServingLimits) for name in names}
    told |= {name: text for names, text in _entries(Limits) for name in names if len(names) == 1}
    for field in attrs.fields(Limits):
        yield f"| `{field.name}` | {_code(told[field.name])} | {_shown(field.default)} |"


def commands() -> Iterator[str]:
    """Yield each command and each of its actions."""
    yield from ("| command | |", "|---|---|")
    for name, summary in COMMANDS.items():
        yield f"| `triobot {name}` | {_code(summary)} |"
        parser = argparse.ArgumentParser()
        read_module(name).declare(parser)
        for actions in (one for one in parser._actions if isinstance(one, argparse._SubParsersAction)):
            for action in actions._get_subactions():
                yield f"| `triobot {name} {action.dest}` | {_code(action.help or '')} |"


def routes() -> Iterator[str]:
    """Yield what a running bot can be asked."""
    yield from ("| request | fields |", "|---|---|")
    for route in ROUTES:
        fields = ", ".join(f"`{name}`" for name in route.fields if name not in route.places)
        yield f"| `{route.method} {route.path}` | {fields} |"
    yield "| `GET /metrics` | |"


def metrics() -> Iterator[str]:
    """Yield the metrics."""
    yield from ("| metric | |", "|---|---|")
    for metric in METRICS:
        yield f"| `{metric.name}` ({metric.kind}) | {_code(metric.help)} |"


def control() -> Iterator[str]:
    """Yield the requests of the control API."""
    yield from ("| request | |", "|---|---|")
    for path, operations in json.loads(CONTROL.read_text(encoding="utf-8"))["paths"].items():
        for method, operation in operations.items():
            if "summary" in operation:
                yield f"| `{method.upper()} {path}` | {_code(operation['summary'])} |"


def routing() -> Iterator[str]:
    """Yield the rows that take an event."""
    yield from ("| | taken by | result |", "|---|---|---|")
    for number, row in enumerate(ROWS, 1):
        who, then = _WORDS[row.name]
        yield f"| {number} | {who} | {then} |"


TABLES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "settings": settings,
    "limits": limits,
    "commands": commands,
    "routes": routes,
    "metrics": metrics,
    "control": control,
    "routing": routing,
}


def page(path: Path) -> str:
    """Return a page with each table as it is written now."""

    def put(found: re.Match[str]) -> str:
        return f"{found[1]}" + "\n".join(TABLES[found[2]]()) + f"\n{found[3]}"

    return _PART.sub(put, path.read_text(encoding="utf-8"))


WRITTEN: Final[Mapping[Path, Callable[[], str]]] = {
    DOCS / name: partial(page, DOCS / name) for name in ("reference.md", "routing.md")
}

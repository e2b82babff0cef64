"""Answers to the page's requests for time travel: a pass from a file, or a pass that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
from window import Window

PIZZA = Path(__file__).with_name("travel_pizza.json")
"""The pass of a pizza order with two rejected forms, a kill and a payment."""


@attrs.define
class Told:
    """A pass with its notches and its source, as the server's answers.

    Attributes:
        asked: methods and paths of the page's requests so far.
        beside: other conversations of the chat.
        can: the commands that the server offers, such as "branch".
    """

    head: dict[str, Any]
    notches: list[dict[str, Any]]
    source: str
    ready: bool = True
    failed: str = ""
    asked: list[str] = attrs.Factory(list)
    beside: list[dict[str, Any]] = attrs.Factory(list)
    can: Sequence[str] = ()

    def whole_at(self, n: int) -> dict[str, Any]:
        """Return notch `n` with the complete state, as the first notch of a window."""
        whole: dict[str, Any] = {"f": {}, "v": {}, "parked": [], "blocks": [], "data": {}}
        for notch in self.notches[: n + 1]:
            whole["parked"] = notch.get("parked", whole["parked"])
            whole["blocks"] = notch.get("blocks", whole["blocks"])
            whole["data"] = _over(whole["data"], notch.get("data", {}))
            whole["f"] = _over(whole["f"], notch.get("f", {}))
            for branch, frames in notch.get("v", {}).items():
                old = whole["v"].get(branch, [])
                whole["v"][branch] = [
                    _over(old[depth] if depth < len(old) else {}, changes)
                    for depth, changes in enumerate(frames or [])
                ]
        return {**self.notches[n], **whole, "whole": True}

    def answer(self, method: str, address: str) -> tuple[int, str, str]:
        """Return status, type and body for a request of the page."""
        url = urlsplit(address)
        self.asked.append(f"{method} {url.path}{'?' + url.query if url.query else ''}")
        match method, url.path.split("/")[3:]:
            case "POST", [_, _, "open"]:
                return 202, "application/json", json.dumps({"id": self.head["id"]})
            case "GET", ["pass", _]:
                if self.failed:
                    return 409, "application/json", json.dumps({"error": self.failed})
                if not self.ready:
                    return 200, "application/json", json.dumps({"id": "p1"})
                return 200, "application/json", json.dumps(self.head)
            case "GET", ["pass", _, "notches"]:
                query = parse_qs(url.query)
                start, end = int(query["from"][0]), int(query["to"][0])
                notches = [self.whole_at(start), *self.notches[start + 1 : min(end, start + 256)]]
                told = {"from": start, "to": start + len(notches), "notches": notches}
                return 200, "application/json", json.dumps(told)
            case "GET", ["pass", _, "source", _]:
                return 200, "text/plain; charset=utf-8", self.source
            case "DELETE", ["pass", _]:
                return 200, "application/json", "{}"
            case "GET", [_]:
                told = {"conversations": [self.listed(), *self.beside], "can": [*self.can]}
                return 200, "application/json", json.dumps(told)
            case _:
                return 404, "application/json", json.dumps({"error": "there is no such pass"})

    def listed(self) -> dict[str, Any]:
        """Return the pass's entry in the list of the chat's conversations."""
        kept = ("conversation", "route", "kind", "state", "started_at", "records")
        return {key: self.head[key] for key in kept}


def _over(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


def pizza(chat_id: int = 13601) -> Told:
    """Return the pass of the pizza order."""
    kept = json.loads(PIZZA.read_text("utf-8"))
    return Told({**kept["pass"], "chat_id": chat_id}, kept["notches"], kept["source"])


async def travel(shown: Window, told: Told, *, notch: int | None = None) -> None:
    """Open the time travel of `told` by an address."""
    await shown.page.answers("**/control/travel/**", told.answer)
    place = f"c/{shown.sara.chat_id}/1" + ("" if notch is None else f"/n/{notch}")
    await shown.page.run(f"void (location.hash = '#{place}')")

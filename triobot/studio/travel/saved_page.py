"""A whole pass as one page, which needs no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ...emulator.pages import page_alone
from ...emulator.views import JsonObject
from ...wire.rules import JsonValue
from ..errors import TravelError
from .twins import Twins

_ROW: Final = ("chat_id", "conversation", "route", "kind", "state", "because", "started_at")


async def saved_page(looks: Twins, id: str) -> str:
    """Return a page that contains a whole pass; the page opens from a file and sends no requests.

    Raises:
        TravelError: the pass isn't ready, or is gone.
    """
    head = looks.passed(id)
    if "notches" not in head:
        raise TravelError("this pass is not ready yet")
    chat, number = head["chat_id"], head["conversation"]
    place, first, count = f"travel/pass/{id}", cast("int", head["first"]), cast("int", head["notches"])
    notches = list[Any]()
    while first + len(notches) < count:
        window = cast("dict[str, Any]", await looks.notches(id, first + len(notches), count))
        notches += window["notches"]
    row = {name: head[name] for name in _ROW} | {"updated_at": notches[-1]["t"]}
    about: JsonObject = {"what": "export", "bot": "", "hidden": head.get("hidden", False)}
    answers: dict[str, JsonValue] = {
        "travel": {"about": about, "conversations": [row], "after": None},
        f"travel/{chat}": {"conversations": [row]},
        f"travel/{chat}/{number}/open": {"id": id},
        place: head,
        f"{place}/notches": {"notches": notches},
    }
    for source in cast("list[Mapping[str, int]]", head["sources"]):
        answers[f"{place}/source/{source['id']}"] = await looks.source(id, source["id"])
    return page_alone("inspect.html", "travel/saved.js", answers)

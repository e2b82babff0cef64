"""Answers of a store in shards: who is asked what, and one answer of theirs.

Each shard answers as a store by itself does. What names a chat goes to its shard alone, but for the order to
forget it; what names a conversation or a payment, to each until one knows it; the rest goes to all of them,
and what comes back is merged. An answer without one of the shards would be a wrong one: so a shard that can't
be asked fails the whole.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never, cast

import trio

from ..errors import ConflictError, NotFoundError
from ..shards import home_of, shard_of, shard_of_number
from ..wire.ids import ChatId
from .requests import (
    AboutBroadcasts,
    AboutJobs,
    AboutPayments,
    AcceptLines,
    Backup,
    EndAlarms,
    Forget,
    ListAlarms,
    ListChats,
    ListJournals,
    OrderEnd,
    ReadCode,
    ReadJournals,
    ReadKept,
    Request,
    SettleParked,
    ShowJournal,
    Status,
    StreamStore,
    Told,
)

Ask: TypeAlias = "Callable[[Request, Callable[[Told], Awaitable[None]]], Awaitable[object]]"
"""Carries a request to one shard, and brings the lines of its answer."""
_LEAST: Final = frozenset({"opened_at", "next_wake", "oldest_event_at", "rate", "since", "as_of"})
_EARLIEST: Final = ("oldest_unverified_at", "oldest_unsettled_at")
_MOST: Final = frozenset({"at", "unclean", "epoch", "event_lag", "send_age"})


async def ask_shards(asks: Sequence[Ask], request: Request, tell: Callable[[Told], Awaitable[None]]) -> None:
    """Ask those shards that a request concerns, and tell one answer.

    Args:
        asks: one for each shard, in their order.

    Raises: as whatever asks one shard.
    """
    for line in await _answered(asks, request):
        await tell(line)


async def _answered(asks: Sequence[Ask], request: Request) -> Sequence[Told]:
    match request:
        case Status():
            return [merged_status([lines[0] for lines in await _of_all(asks, request)])]
        case ListJournals(chat_id, _, limit):
            if chat_id is not None:
                return await _lines(asks[shard_of(chat_id, len(asks))], request)
            rows = [row for lines in await _of_all(asks, request) for row in lines]
            return sorted(rows, key=lambda row: cast("int", row["conversation"]))[:limit]
        case ShowJournal(conversation) | OrderEnd(conversation):
            return await _of_number(asks, conversation, request)
        case ReadJournals():
            return _page(await _of_all(asks, request), _conversation_of)
        case ReadKept():
            return _page(await _of_all(asks, request), lambda line: cast("int", line["chat_id"]))
        case SettleParked(conversation, chat_id):
            if conversation is not None:
                return await _of_number(asks, conversation, request)
            if chat_id is not None:
                return await _lines(asks[shard_of(chat_id, len(asks))], request)
            return list(_settled(await _of_all(asks, request)))
        case ListChats(limit):
            return [chat for lines in await _of_all(asks, request) for chat in lines][:limit]
        case Forget(place):
            own = shard_of(place, len(asks))
            # First the one that refuses if money is open there. Requests that can't be read lie in any shard.
            told = [await _lines(ask, request) for ask in (asks[own], *asks[:own], *asks[own + 1 :])]
            return [_forgotten([lines[0] for lines in told])]
        case Backup() | StreamStore():
            raise ConflictError("a store in PostgreSQL has the server's own backups and streams")
        case AboutJobs():
            return await _lines(asks[home_of(len(asks))], request)
        case ReadCode() | AcceptLines():  # what two shards know alike is told twice
            return [line for lines in await _of_all(asks, request) for line in lines]
        case ListAlarms() | EndAlarms():
            return [alarm for lines in await _of_all(asks, request) for alarm in lines]
        case AboutBroadcasts(fields):
            return [_broadcasts(fields, [lines[0] for lines in await _of_all(asks, request)])]
        case AboutPayments(fields):
            return [await _payments(asks, fields)]
        case _:
            assert_never(request)


async def _lines(ask: Ask, request: Request) -> list[Told]:
    lines: list[Told] = []

    async def tell(line: Told) -> None:
        await trio.lowlevel.checkpoint()
        lines.append(line)

    await ask(request, tell)
    return lines


async def _of_all(asks: Sequence[Ask], request: Request) -> Sequence[list[Told]]:
    return [await _lines(ask, request) for ask in asks]


async def _of_number(asks: Sequence[Ask], conversation: int, request: Request) -> Sequence[Told]:
    """Ask the shard that has given a conversation its number, and then the others: it may have been copied.

    Raises:
        NotFoundError, ConflictError: none of them has it, or whichever has it can't do this.
    """
    own, missing = shard_of_number(conversation), list[NotFoundError | ConflictError]()
    for _, ask in sorted(enumerate(asks), key=lambda shard: shard[0] != own):
        try:
            return await _lines(ask, request)
        except (NotFoundError, ConflictError) as error:
            missing.append(error)
    # Whoever has it, and can't do it, says more than who hasn't.
    raise next((error for error in missing if isinstance(error, ConflictError)), missing[0])


# --- what is merged


def _forgotten(each: Sequence[Told]) -> Told:
    """Return what was deleted in all shards."""
    total: Told = {name: sum(cast("int", one[name]) for one in each) for name in each[0] if name != "found"}
    return {**total, "found": any(one["found"] for one in each)}


def merged_status(told: Sequence[Told]) -> Told:
    """Return how the bot is, of how its shards are: numbers add up, and it works if all of them do.

    It runs if any of them does. For some seconds after a node's death others have no node.
    """
    merged = dict(_sum_up(told))
    if "states" in merged:
        # Of each part what the first says that isn't well.
        states: dict[str, str] = {}
        for one in told:
            for part, state in cast("Mapping[str, str]", one.get("states") or {}).items():
                if states.get(part, "ok") in ("ok", "working"):
                    states[part] = state
        merged["states"] = states
    running = [one for one in told if one["running"]]
    merged["running"] = bool(running)
    merged["idle_shards"] = [shard for shard, one in enumerate(told) if running and not one["running"]]
    began = [cast("int", one["opened_at"]) for one in running or told if one["opened_at"]]
    merged["opened_at"] = min(began, default=None)
    if "working" in merged:
        merged["working"] = all(one.get("working", False) for one in told)
    merged["risk"] = next((one["risk"] for one in told if one["risk"]), told[0]["risk"])
    if "node" in merged:
        # Shards may be at several nodes.
        merged["node"] = ", ".join(dict.fromkeys(str(one["node"]) for one in told if "node" in one))
    merged["shards"] = len(told)
    return merged


def _sum_up(told: Sequence[Told]) -> Iterator[tuple[str, object]]:
    names = dict.fromkeys(name for one in told for name in one)
    for name in names:
        values = [one[name] for one in told if one.get(name) is not None]
        yield name, _merged_value(name, values)


def _merged_value(name: str, values: Sequence[Any]) -> object:
    if not values:
        return None
    first = values[0]
    if isinstance(first, Mapping):
        return dict(_sum_up(cast("Sequence[Told]", values)))
    if isinstance(first, list):
        return [item for value in values for item in value]
    if isinstance(first, bool):
        return any(values)
    if isinstance(first, int | float):
        if name in _LEAST or name in _EARLIEST:
            return min(values)
        return max(values) if name in _MOST else sum(values)
    return first


def _conversation_of(line: Told) -> int:
    journal = cast("Sequence[Told] | None", line.get("journal"))
    return cast("int", (line if journal is None else journal[0])["conversation"])


def _page(pages: Sequence[list[Told]], place: Callable[[Told], int]) -> Sequence[Told]:
    """Return one page of those of all shards, as far as each of them is known to reach."""
    ends = [cast("int | None", page[-1]["after"]) for page in pages]
    reached = min((end for end in ends if end is not None), default=sys.maxsize)
    lines = sorted((line for page in pages for line in page[:-1]), key=place)
    more = any(end is not None for end in ends)
    return [*(line for line in lines if place(line) <= reached), {"after": reached if more else None}]


def _settled(answers: Sequence[list[Told]]) -> Iterator[Told]:
    found = Counter[tuple[str, str]]()
    for lines in answers:
        for line in lines[:-1]:
            found[str(line["route"]), str(line["because"])] += cast("int", line["count"])
    for (route, because), count in found.most_common():
        yield {"route": route, "because": because, "count": count}
    totals = [lines[-1] for lines in answers]
    yield {what: sum(cast("int", total[what]) for total in totals) for what in ("parked", "done")}


_STATES: Final = ("capturing", "sending", "stopping", "stopped", "done", "none")


def _broadcasts(fields: Told, answers: Sequence[Told]) -> Told:
    match fields.get("ask"):
        case "broadcast.list":
            by_key: dict[str, list[Told]] = {}
            for answer in answers:
                for one in cast("Sequence[Told]", answer["broadcasts"]):
                    by_key.setdefault(str(one["key"]), []).append(one)
            listed = sorted(map(_one_broadcast, by_key.values()), key=lambda one: cast("int", one["at"]))
            return {"broadcasts": listed}
        case "broadcast.status":
            return {"broadcast": _one_broadcast([cast("Told", answer["broadcast"]) for answer in answers])}
        case _:
            return {"stopped": any(answer["stopped"] for answer in answers)}


def _one_broadcast(parts: Sequence[Told]) -> Told:
    begun = [part for part in parts if part["state"] != "none"] or parts[:1]
    merged = dict(_sum_up(begun))
    merged["state"] = min((str(part["state"]) for part in begun), key=_STATES.index)
    if "at" in merged:
        merged["at"] = min(cast("int", part["at"]) for part in begun)
    return merged


async def _payments(asks: Sequence[Ask], fields: Told) -> Told:
    """Answer a question about payments: of one, by whichever shard knows it; of many, by all of them."""
    asked, request = fields.get("ask"), AboutPayments(fields)
    if asked == "payments.adopt":
        return (await _lines(asks[shard_of(ChatId(cast("int", fields["chat"])), len(asks))], request))[0]
    if asked not in ("payments.list", "payments.totals", "payments.counts", "payments.alarms", _ENDS):
        return await _of_one(asks, request)
    answers = [lines[0] for lines in await _of_all(asks, request)]
    match asked:
        case "payments.list":
            rows = [row for answer in answers for row in cast("Sequence[Told]", answer["payments"])]
            ordered = sorted(rows, key=lambda row: str(row["ref"]))
            return {"payments": ordered[: cast("int", fields.get("limit") or _USUAL)]}
        case "payments.totals":
            return {"totals": list(_totals(answers))}
        case "payments.counts":
            return {"counts": _merged_value("counts", [answer["counts"] for answer in answers])}
        case _:
            return {"alarms": [row for answer in answers for row in cast("Sequence[Told]", answer["alarms"])]}


_ENDS: Final = "payments.acknowledge"
_USUAL: Final = 100


def _totals(answers: Sequence[Told]) -> Iterator[Told]:
    found: dict[tuple[int, str], dict[str, object]] = {}
    for answer in answers:
        for total in cast("Sequence[Mapping[str, Any]]", answer["totals"]):
            merged = found.setdefault((total["day"], total["group"]), {**total, "count": 0, "amount": 0})
            for what in ("count", "amount"):
                merged[what] = cast("int", merged[what]) + total[what]
    yield from (found[key] for key in sorted(found))


async def _of_one(asks: Sequence[Ask], request: AboutPayments) -> Told:
    missing: NotFoundError | None = None
    for ask in asks:
        try:
            return (await _lines(ask, request))[0]
        except NotFoundError as error:
            missing = error
    raise missing or ConflictError("no shard was asked")

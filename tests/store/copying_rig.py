"""Stores with something in each table, and what is in them, read without the store's own code."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import psycopg
from sqlite_rig import STAMP

from tests.store.contract.contract import NOON, SettableClock, accepted, arrival
from triobot.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    EndConversation,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutStanding,
)
from triobot.money import AcknowledgeAlarms, AlarmTold, PaymentRow, PutPayment, RaiseAlarm
from triobot.nodes.copied_settings import divided_settings
from triobot.rooms import SHARED, person_place, room_place
from triobot.seams import (
    AddReceivers,
    AdvanceBroadcast,
    Consume,
    KeepRaw,
    OpenBroadcast,
    Outcome,
    PutData,
    PutSetting,
    Store,
    TurnBroadcast,
    Write,
)
from triobot.shards import read_shards, shard_of
from triobot.store import open_store
from triobot.store.copying import TableCount, copy_elsewhere
from triobot.store.postgres.address import read_address
from triobot.wire.ids import ChatId, InvoiceId, RefId, SenderId

CHATS: Final = [ChatId(number) for number in (-40, 1, 2, 3, 71, 72, 73, 1000, 10**12, 10**18 - 1)]
PLACES: Final = [*CHATS, SHARED, person_place(SenderId(71)), room_place("desk", "1")]
PLAIN: Final = (
    *("inbox", "deliveries", "senders", "data", "conversations", "journal", "effects"),
    *("payments", "payment_moves", "alarms"),
)
"""Tables whose rows are in a copy as they were."""
KEY: Final = "0123456789abcdef"


def copy(origin: str, target: str, tell: Any = lambda text: None) -> Sequence[TableCount]:
    """Copy a store, as the command does."""
    return copy_elsewhere(
        origin, target, stamp=STAMP, clock=SettableClock(), divide=divided_settings, tell=tell
    )


async def fill(address: str, seed: int = 1, *, many: int = 1) -> None:
    """Put something of everything into each shard of a new store."""
    each = read_shards(address).each
    for shard, one in enumerate(each):
        async with open_store(one, stamp=STAMP, clock=SettableClock()) as store:
            chance = random.Random(f"{seed} {shard}")
            for place in PLACES:
                if shard_of(place, len(each)) == shard:
                    await _fill_place(store, place, chance, many)
            await _fill_shard(
                store, shard, chance, [chat for chat in CHATS if shard_of(chat, len(each)) == shard]
            )


async def _fill_place(store: Store, place: ChatId, chance: random.Random, many: int) -> None:
    lease = store.lease(place)
    assert lease is not None
    for n in range(many * chance.randrange(2, 5)):
        text = f"{place}/{n}"
        event = arrival(
            place,
            sender_id=SenderId(chance.randrange(1, 3)),
            key=f"event:{place}:{text}",
            body=text.encode() + bytes(range(256)),
        )
        row = await accepted(store, event, beginning=(lambda _: "what began") if n == 1 else None)
        if n % 2 == 0:
            continue  # it waits
        id_ = ConversationId(row.seq)
        ended = chance.random() < 0.3
        writes: list[Write] = [
            BeginConversation(lease, id_, place, f"route{n}", "v1", NOON, "room", SenderId(7), KEY),
            AppendRecords(lease, id_, 0, (json.dumps(["S", text]), json.dumps(["D", "سلام"]))),
            AppendRecords(lease, id_, 2, (json.dumps(["D", chance.random()]),)),
            PutStanding(lease, id_, NOON, unfinished=True, wake_at=NOON + n),
            KeepIntent(lease, id_, 1, "3", NOON, "an intent"),
            KeepResult(lease, id_, 1, "4/1.2", NOON, "a result"),
            Consume((row.seq,)),
        ]
        if ended:
            writes.append(EndConversation(lease, id_, NOON, "failed"))
        elif chance.random() < 0.5:
            writes.append(ParkConversation(lease, id_, NOON, "no such route"))
        await store.commit(*writes)
    await store.commit(
        PutData(place, "name", json.dumps("x" * chance.randrange(50))),
        PutData(place, f"triobot.once.{place}.{NOON}", "1"),
    )
    ref = f"ref{place}"
    payment = PaymentRow(
        RefId(ref), 1, "open", "button IRR", place, 500, NOON, "{}", InvoiceId(f"i{ref}"), NOON, None
    )
    await store.commit(PutPayment(payment, "send_ok", NOON))
    if chance.random() < 0.5:
        await store.commit(
            PutPayment(attrs.evolve(payment, revision=2, state="captured", captured=500), "verified", NOON)
        )
    await store.commit(RaiseAlarm("payment_unverified", ref, "look at it", NOON))


async def _fill_shard(store: Store, shard: int, chance: random.Random, chats: Sequence[ChatId]) -> None:
    await store.commit(
        *(KeepRaw(NOON + n, "no JSON", "text/plain", f"{shard} {n}".encode()) for n in range(3)),
        RaiseAlarm("clock_jumped", "clock", f"by {shard}", NOON + shard),
        RaiseAlarm("outbox_held", "outbox", "held", NOON),
        RaiseAlarm("token_refused", "token", "refused", NOON),
        AlarmTold("outbox_held", "outbox", NOON + shard),
    )
    await store.commit(AcknowledgeAlarms(("token_refused",), None, NOON + shard))
    for key, state in (("spring", "sending"), ("summer", "stopping"), ("autumn", "stopped"), ("now", None)):
        await store.commit(OpenBroadcast(key, NOON, f"of {key}"), AddReceivers(key, tuple(chats)))
        if state is None:
            continue
        await store.commit(TurnBroadcast(key, "sending"))
        meant = chance.randrange(len(chats) + 1)
        outcomes = {n: chance.choice(list(Outcome)) for n in range(1, meant + 1) if chance.random() < 0.6}
        await store.commit(AdvanceBroadcast(key, meant, outcomes))
        if state != "sending":
            await store.commit(TurnBroadcast(key, state))  # type: ignore[arg-type]
    names = ("webhook_secret", "log_key", "jobs")
    await store.commit(*(PutSetting(name, f"the {name}") for name in names))
    await store.commit(
        PutSetting("clock_jumped", f"100 {NOON + shard}"),
        PutSetting("payments_watched", f"{NOON - shard} 100"),
        PutSetting("alarms_told https", json.dumps([["clock_jumped", "clock", NOON, NOON]])),
    )


# --- what is there


def contents(address: str) -> dict[str, list[Any]]:
    """What a store holds, its shards together, apart from what each knows of itself."""
    shards = [_rows(one) for one in read_shards(address).each]
    found: dict[str, list[Any]] = {
        table: sorted((row for shard in shards for row in shard[table]), key=repr) for table in PLAIN
    }
    if len(shards) > 1:
        found["alarms"] = sorted(_merged_alarms(found["alarms"]), key=repr)
    found["raw"] = sorted((row[1:] for shard in shards for row in shard["raw"]), key=repr)
    found["broadcasts"], found["receivers"] = _broadcasts(shards)
    return found


def _merged_alarms(rows: Sequence[Any]) -> list[Any]:
    """Those of several shards as one; what that is has a test of its own."""
    from triobot.store.copying.tables import merged_alarm

    by_key: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        by_key.setdefault(row[:2], []).append(row)
    return [merged_alarm(same) for same in by_key.values()]


def _broadcasts(shards: Sequence[dict[str, list[Any]]]) -> tuple[list[Any], list[Any]]:
    """Broadcasts as their users see them, and receivers, each with whether it was tried."""
    counts: dict[str, Counter[str]] = {}
    states: dict[str, tuple[Any, ...]] = {}
    receivers: list[Any] = []
    for shard in shards:
        begun = {row[0]: row for row in shard["broadcasts"] if row[3] != "capturing"}
        for _, key, at, state, content, _, _, *sums in begun.values():
            counts.setdefault(key, Counter()).update(
                dict(zip(("total", "sent", "gone", "failed", "unknown"), sums, strict=True))
            )
            states[key] = (at, state, content)
        receivers += [
            (begun[n][1], chat_id, gone, position <= begun[n][5])
            for n, position, chat_id, gone in shard["receivers"]
            if n in begun
        ]
    told = [(key, *states[key], sorted(counts[key].items())) for key in sorted(counts)]
    return told, sorted(receivers)


def _rows(one: str) -> dict[str, list[Any]]:
    tables = (*PLAIN, "raw", "broadcasts", "receivers", "settings", "meta")
    if one.startswith("postgresql:"):
        shard = read_shards(one)
        address = read_address(shard.whole.partition(":")[2], shard.share)
        with psycopg.connect(address.conninfo) as server:
            server.execute(f'SET search_path TO "{address.schema}"'.encode())
            return {table: server.execute(f"SELECT * FROM {table}".encode()).fetchall() for table in tables}
    file = read_shards(one).file
    assert file is not None
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    finally:
        connection.close()


def settings(address: str) -> list[dict[str, str]]:
    """The settings of each shard."""
    return [dict(_rows(one)["settings"]) for one in read_shards(address).each]


def facts(address: str) -> list[dict[str, str]]:
    """What each shard knows of itself."""
    return [dict(_rows(one)["meta"]) for one in read_shards(address).each]


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, apart from locks and logs."""
    return {
        one.name: one.read_bytes() for one in folder.iterdir() if ".db" in one.name and "lock" not in one.name
    }

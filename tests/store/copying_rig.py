"""Stores with something in each table, and what is in them, read without the store's own code."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any, Final

import attrs
import psycopg
from sqlite_rig import STAMP

from tests.store.contract.contract import NOON, SettableClock, accepted, arrival
from triobot.seams.broadcasts import AddReceivers, AdvanceBroadcast, OpenBroadcast, Outcome, TurnBroadcast
from triobot.seams.journals import (
    AcceptedChange,
    AppendRecords,
    BeginConversation,
    ConversationId,
    Deployed,
    EndConversation,
    KeepCode,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutStanding,
)
from triobot.seams.money import AcknowledgeAlarms, AlarmTold, PaymentRow, PutPayment, RaiseAlarm
from triobot.seams.rooms import SHARED, person_place, room_place
from triobot.seams.writes import Consume, KeepRaw, PutData, PutSetting, Write
from triobot.store import Store, open_store
from triobot.store.copying import copy_elsewhere
from triobot.store.postgres.address import read_address
from triobot.wire.ids import ChatId, InvoiceId, RefId, SenderId

CHATS: Final = [ChatId(number) for number in (-40, 1, 2, 3, 71, 72, 73, 1000, 10**12, 10**18 - 1)]
PLACES: Final = [*CHATS, SHARED, person_place(SenderId(71)), room_place("desk", "1")]
TABLES: Final = (
    *("inbox", "deliveries", "senders", "data", "conversations", "journal", "effects"),
    *("payments", "payment_moves", "alarms", "raw", "broadcasts", "receivers", "settings", "meta"),
    *("sources", "sites", "deployed", "accepted"),
)
KEY: Final = "0123456789abcdef"


def copy(origin: str, target: str, tell: Any = lambda text: None) -> int | None:
    """Copy a store, as the command does."""
    return copy_elsewhere(origin, target, stamp=STAMP, clock=SettableClock(), tell=tell)


async def fill(address: str, seed: int = 1, *, many: int = 1) -> None:
    """Put something of everything into a new store."""
    async with open_store(address, stamp=STAMP, clock=SettableClock()) as store:
        chance = random.Random(seed)
        for place in PLACES:
            await _fill_place(store, place, chance, many)
        await _fill_the_rest(store, chance)


async def _fill_place(store: Store, place: ChatId, chance: random.Random, many: int) -> None:
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
            BeginConversation(id_, place, f"route{n}", "v1", NOON, "room", SenderId(7), KEY),
            AppendRecords(id_, 0, (json.dumps(["S", text]), json.dumps(["D", "سلام"]))),
            AppendRecords(id_, 2, (json.dumps(["D", chance.random()]),)),
            PutStanding(id_, NOON, unfinished=True, wake_at=NOON + n),
            KeepIntent(id_, 1, "3", NOON, "an intent"),
            KeepResult(id_, 1, "4/1.2", NOON, "a result"),
            Consume((row.seq,)),
        ]
        if ended:
            writes.append(EndConversation(id_, NOON, "failed"))
        elif chance.random() < 0.5:
            writes.append(ParkConversation(id_, NOON, "no such route"))
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


async def _fill_the_rest(store: Store, chance: random.Random) -> None:
    await store.commit(
        *(KeepRaw(NOON + n, "no JSON", "text/plain", str(n).encode()) for n in range(3)),
        RaiseAlarm("clock_jumped", "clock", "by 1", NOON),
        RaiseAlarm("outbox_held", "outbox", "held", NOON),
        RaiseAlarm("token_refused", "token", "refused", NOON),
        AlarmTold("outbox_held", "outbox", NOON),
    )
    await store.commit(AcknowledgeAlarms(("token_refused",), None, NOON))
    for key, state in (("spring", "sending"), ("summer", "stopping"), ("autumn", "stopped"), ("now", None)):
        await store.commit(OpenBroadcast(key, NOON, f"of {key}"), AddReceivers(key, tuple(CHATS)))
        if state is None:
            continue
        await store.commit(TurnBroadcast(key, "sending"))
        meant = chance.randrange(len(CHATS) + 1)
        outcomes = {n: chance.choice(list(Outcome)) for n in range(1, meant + 1) if chance.random() < 0.6}
        await store.commit(AdvanceBroadcast(key, meant, outcomes))
        if state != "sending":
            await store.commit(TurnBroadcast(key, state))  # type: ignore[arg-type]
    await store.commit(
        KeepCode(
            (("d1", "shop", "# of all"), ("d2", "texts", "# of some")),
            ((7, 0, "d1", "order", 1, 0, 1, 9), (70, 7, "d2", "", *[None] * 4)),
            Deployed(NOON, 3, ("d1", "d2")),
        ),
        AcceptedChange("order", "_.ask('A')", "_.ask('B')"),
    )
    names = ("webhook_secret", "log_key", "jobs")
    await store.commit(*(PutSetting(name, f"the {name}") for name in names))
    await store.commit(
        PutSetting("clock_jumped", f"100 {NOON}"),
        PutSetting("payments_watched", f"{NOON} 100"),
        PutSetting("killed_early", "1:2"),
        PutSetting("alarms_told https", json.dumps([["clock_jumped", "clock", NOON, NOON]])),
    )


# --- what is there


def contents(address: str) -> dict[str, list[Any]]:
    """What a store holds, apart from what it knows of itself."""
    return {table: sorted(rows, key=repr) for table, rows in _rows(address).items() if table != "meta"}


def _rows(address: str) -> dict[str, list[Any]]:
    engine, _, place = address.partition(":")
    if engine == "postgresql":
        schema = read_address(place)
        with psycopg.connect(schema.conninfo) as server:
            server.execute(f'SET search_path TO "{schema.schema}"'.encode())
            return {table: server.execute(f"SELECT * FROM {table}".encode()).fetchall() for table in TABLES}
    connection = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    try:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    finally:
        connection.close()


def facts(address: str) -> dict[str, str]:
    """What a store knows of itself."""
    return dict(_rows(address)["meta"])


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, apart from locks and logs."""
    return {
        one.name: one.read_bytes() for one in folder.iterdir() if ".db" in one.name and "lock" not in one.name
    }

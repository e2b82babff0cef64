"""No statement of an event's path, and none that runs again and again, walks through a table in PostgreSQL.

The server says of each statement how it ran it (auto_explain), with the plan that the session keeps: made
when the tables were empty. Nothing counts their rows later, and nothing vacuums them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.postgres import Server
from tests.store.contract.contract import NOON, ROOMY, arrival
from tests.store.contract.money import ROW, put
from tests.store.test_store_plans import STEPS, write
from triobot.base.clock import steady_time
from triobot.seams.broadcasts import AddReceivers, AdvanceBroadcast, OpenBroadcast, Outcome, TurnBroadcast
from triobot.seams.inbox import InboxRow
from triobot.seams.journals import BeginConversation, ConversationId, EndConversation
from triobot.seams.money import AlarmTold, RaiseAlarm
from triobot.seams.writes import Accept, PutData
from triobot.store import Stamp
from triobot.store.postgres.address import read_address
from triobot.store.postgres.admitting import Admission, _ToAdmit
from triobot.store.postgres.opened import OpenedStore, open_here
from triobot.store.rules import RETENTION
from triobot.store.statements import Tables
from triobot.store.writer import Arriving, AskedJob, Job, Noted
from triobot.wire.ids import ChatId, InvoiceId, SenderId

STAMP = Stamp("https://platform.test", "t")
ROWS = 3_000
TIMES = 12
"""By then the server has chosen a plan that it keeps, which it does at a statement's sixth time."""

SMALL = {"raw", "owner", "meta", "settings", "broadcasts", "numbers"}
"""Tables of a few rows each."""

SOME = 100
SCAN = re.compile(
    r"(\w+ (?:Only )?Scan)(?: using \w+)? on (\w+).*\(actual rows=(\d+) loops=(\d+)\)"
    r"((?:\n\t +[A-Z][\w ]+: .*)*)"
)
"""A step of a plan: what it does, to which table, how many rows it returned how often, what it dropped."""

BROADCAST = "news"
MORE: list[tuple[str, Callable[[Tables], object]]] = [
    ("data", lambda tables: tables.apply(PutData(ChatId(7), "k", "v"))),
    ("data of a chat", lambda tables: tables.data(ChatId(7))),
    ("redelivered", lambda tables: tables.apply(Accept(arrival(7, key="new")))),
    ("payment", lambda tables: tables.money.apply(put(invoice_id="i", due_at=NOON, urgent=1))),
    ("payment moves", lambda tables: tables.money.apply(put(revision=2, invoice_id="i", due_at=NOON))),
    ("payment of an invoice", lambda tables: tables.money.of_invoice(InvoiceId("i"))),
    ("payment read", lambda tables: tables.money.get(ROW.id)),
    ("payments due", lambda tables: tables.money.due(0, limit=10)),
    ("payment due next", lambda tables: tables.money.next_due()),
    ("payment moved", lambda tables: tables.money.history(ROW.id)),
    ("alarm", lambda tables: tables.money.apply(RaiseAlarm("adopted", "x", "text", 0))),
    ("alarm told", lambda tables: tables.money.apply(AlarmTold("adopted", "x", NOON))),
    ("broadcast", lambda tables: tables.broadcasts.apply(OpenBroadcast(BROADCAST, NOON, "text"))),
    ("receivers", lambda tables: tables.broadcasts.apply(AddReceivers(BROADCAST, (ChatId(1), ChatId(2))))),
    ("sending", lambda tables: tables.broadcasts.apply(TurnBroadcast(BROADCAST, "sending"))),
    (
        "sent",
        lambda tables: tables.broadcasts.apply(
            AdvanceBroadcast(BROADCAST, 2, {1: Outcome.SENT, 2: Outcome.GONE})
        ),
    ),
    ("receivers left", lambda tables: tables.broadcasts.receivers(BROADCAST, after=0, limit=10)),
    ("broadcast read", lambda tables: tables.broadcasts.job(BROADCAST)),
]

UNDONE = {
    "conversations": "id < 1000",
    "journal": "conversation < 1000",
    "effects": "conversation < 1000",
    "payments": "id = '1111'",
    "payment_moves": "id = '1111'",
    "broadcasts": "true",
    "deliveries": "key NOT LIKE 'text:%'",
    "receivers": "n <> 999",
}
"""Rows that a round leaves, and the next one makes again."""
FULL = (
    f"INSERT INTO inbox SELECT n + 100000, n + 1000, 1, 't', 'b' FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO deliveries SELECT 'text:' || n, {NOON}, 0, 1 FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO senders SELECT n + 1000, n FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO data SELECT n + 1000, 'k', 'v' FROM generate_series(1, {ROWS}) AS n",
    "INSERT INTO conversations (id, chat_id, route, kind, version, unfinished, wake_at, started_at,"
    f" updated_at) SELECT n + 1000, n + 1000, 'r', 'k', 'v', 0, {NOON} + n, 1, 1"
    f" FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO journal SELECT n + 1000, 0, 1, 'r' FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO effects SELECT n + 1000, 'o', 1, 'i', 1, 'r' FROM generate_series(1, {ROWS}) AS n",
    "INSERT INTO payments (id, revision, state, grouped, chat_id, amount, made_at, record, due_at)"
    f" SELECT 'p' || n, 1, 's', 'g', 1, 1, 1, '', {NOON} + n FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO payment_moves SELECT 'p' || n, 1, 1, 'f', 's' FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO alarms SELECT 'adopted', n, 't', 1, 1, 1 FROM generate_series(1, {ROWS}) AS n",
    f"INSERT INTO receivers SELECT 999, n, n FROM generate_series(1, {ROWS}) AS n",
)


def one_round(opened: OpenedStore, number: int) -> None:
    """Do each step once, as a batch by itself; then a batch of events, one that consumes them, and reads."""
    for name, step in [*STEPS, *MORE]:
        do(opened, AskedJob(step, writes=True), name=name)
    events = [
        Arriving(arrival(chat, key=f"{number} {chat}", body=b"x"), ROOMY, lambda _: None, None)
        for chat in (7, 20, 21)
    ]
    do(opened, *events, name="events")
    noted = Noted()
    noted.consumed += [one.answer.seq for one in events if isinstance(one.answer, InboxRow)]
    noted.answered.update((f"{number} {chat}", None) for chat in (7, 20, 21))
    read = AskedJob(lambda tables: tables.backlog(after=0, limit=5), writes=False)
    do(opened, noted, read, name="consumed")
    assert len(noted.consumed) == 3
    ids = [ConversationId(3), ConversationId(4)]
    for id_ in ids:
        begin = BeginConversation(id_, ChatId(7), "pizza", "v", NOON)
        do(opened, AskedJob(write(begin), writes=True), name="begun")
    ends = [AskedJob(write(EndConversation(id_, NOON)), writes=True) for id_ in ids]
    do(opened, *ends, name="ended together")


def admit(admission: Admission, number: int) -> None:
    """Take events in as another process does: one that is new, one that is here, one that was answered."""
    for keys in (("a", "b"), ("b", "c")):
        coming = [
            _ToAdmit(
                arrival(30 + at, key=f"{number} {key}", sender_id=SenderId(at)), ROOMY, steady_time() + 5_000
            )
            for at, key in enumerate(keys)
        ]
        admission._send(coming, {f"{number} a": NOON})


def do(opened: OpenedStore, *jobs: Job[object], name: str) -> None:
    """Have jobs done as one batch."""
    with opened.turn:
        assert opened.transactions.run(jobs) == [None] * len(jobs), name


@contextmanager
def explaining(server: Server) -> Generator[None]:
    """Have the server write down how it runs each statement of the sessions that begin in the block."""
    settings = {
        "session_preload_libraries": "auto_explain",
        "auto_explain.log_min_duration": "0",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_timing": "off",
    }
    server.ask("LOAD 'auto_explain'")
    server.ask(*(f"ALTER ROLE bots SET {name} = '{value}'" for name, value in settings.items()))
    try:
        yield
    finally:
        server.ask(*(f"ALTER ROLE bots RESET {name}" for name in settings))


def walks(log: str) -> set[tuple[str, str]]:
    """Return the steps of plans that went through a table, or saw many rows of one, and the statements."""
    found: set[tuple[str, str]] = set()
    for entry in re.split(r"LOG:  duration: .*plan:\n", log)[1:]:
        text = entry.partition("\n")[0].removeprefix("\tQuery Text: ")
        for step, table, rows, loops, below in SCAN.findall(entry):
            passed = sum(map(int, re.findall(r"Rows Removed by .*: (\d+)", below)))
            many = int(loops) * (int(rows) + passed) > SOME
            if table not in SMALL and (many or (step == "Seq Scan" and int(loops))):
                found.add((f"{step} on {table}", text))
    return found


def test_no_statement_walks_through_a_table_of_postgresql(postgres: Server) -> None:
    """The tables are empty when the plans are made; then they are full, and nothing is known of that."""
    log = postgres.folder.parent / "log"
    with explaining(postgres):
        address = read_address(postgres.url().partition(":")[2])
        opened = open_here(address, STAMP, now=NOON, retention=RETENTION)
        admission = Admission(address)
        admit(admission, -1)
    try:
        begun = log.stat().st_size
        for number in range(2 * TIMES):
            if number == TIMES:
                postgres.ask("SET search_path TO triobot", *FULL, "RESET search_path")
            one_round(opened, number)
            admit(admission, number)
            postgres.ask(*(f"DELETE FROM triobot.{name} WHERE {which}" for name, which in UNDONE.items()))
    finally:
        assert admission._connection is not None
        admission._connection.close()
        opened.close(clean=True, now=NOON)
    with log.open() as lines:
        lines.seek(begun)
        said = lines.read()
    assert said.count("plan:") > 2 * TIMES * len(STEPS)
    assert walks(said) == set()

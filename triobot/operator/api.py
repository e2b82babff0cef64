"""Answers an operator's requests, with data of a store and with the state of a running bot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Final, TypeAlias, assert_never, cast, final

import attrs

from ..base.alarm_kinds import ABOUT
from ..base.clock import WallClock
from ..errors import ConfigError, ConflictError, NotFoundError
from ..seams.inbox import InboxRow
from ..seams.journals import AcceptChange, AcceptedChange, ConversationId, ConversationRow, Journal, Lease
from ..seams.money import AcknowledgeAlarms, AlarmRow
from ..seams.rooms import is_chat
from ..seams.writes import STREAM_ID, PutSetting, Shipped
from ..store import Store
from ..wire.ids import ChatId
from .requests import (
    AboutBroadcasts,
    AboutJobs,
    AboutPayments,
    AcceptLines,
    Answer,
    Backup,
    EndAlarms,
    Forget,
    ListAlarms,
    ListChats,
    ListJournals,
    OrderEnd,
    Reach,
    ReadCode,
    ReadJournals,
    ReadKept,
    Request,
    SettleParked,
    ShowJournal,
    Status,
    StreamStore,
)
from .views import outlined, room_in

STREAM_FORMAT: Final = 1
"""Version of the line format in which a store is streamed."""
_MOST_ALARMS: Final = 1_000
_PAGE: Final = 256

Tell = Callable[[Answer], Awaitable[None]]

_ROWS: Final = 100


@final
class OperatorApi:
    """Answers an operator's requests.

    Args:
        name: the bot's name in metrics.
        health: returns the running bot's state; None without a running bot.
        lag: returns how many seconds the oldest event has been waiting for its chat.
        chats: yields the state of chats in memory; its argument is the largest number of chats. None without
            a running bot.
        begun: makes the journal of a conversation that is stored only as its event's row. None if there are
            no such conversations.
        end: ends everything in a chat, and returns after the end.
        order: orders the end of a parked conversation, with a message to the users, or another try. The order
            is durable when `order` returns. Returns False if the end was ordered before.
        broadcasts: answers requests about broadcasts.
        payments: answers requests about payments and their alarms.
        jobs: answers requests about jobs.
        reach: sends a message or a signal to a chat, or starts a route in the chat; None without a running
            bot.
    """

    def __init__(
        self,
        store: Store,
        clock: WallClock,
        *,
        name: str = "",
        health: Callable[[], Answer] | None = None,
        lag: Callable[[], Awaitable[float]] | None = None,
        chats: Callable[[int], Iterable[Answer]] | None = None,
        begun: Begun | None = None,
        end: Callable[[ChatId], Awaitable[None]] | None = None,
        order: Callable[[ConversationRow, bool, str], Awaitable[bool]] | None = None,
        broadcasts: Callable[[Answer], Awaitable[Answer]] | None = None,
        payments: Callable[[Answer], Awaitable[Answer]] | None = None,
        jobs: Callable[[AboutJobs], Awaitable[Sequence[Answer]]] | None = None,
        reach: Callable[[Reach], Awaitable[Answer]] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self.name = name
        self._health = health
        self._lag = lag
        self._chats = chats
        self._filing = Filing(store, begun)
        self._end = end
        self._order = order
        self._broadcasts = broadcasts
        self._payments = payments
        self._jobs = jobs
        self._reach = reach

    async def answer(self, request: Request, tell: Tell) -> None:
        """Answer a request by calling `tell` with each line.

        Raises:
            NotFoundError: the request names an object that doesn't exist.
            ConflictError: the current state forbids the request.
            ConfigError, ProtocolError: the request is incomplete or invalid.
            StoreError: the store failed.
        """
        match request:
            case Status():
                await tell(await self.status())
            case ListJournals():
                await self._list(request, tell)
            case ShowJournal(conversation):
                journal = await self._filing.journal(conversation)
                if journal is None:
                    raise NotFoundError(
                        f"there is no conversation {conversation}; it has ended, or never began"
                    )
                await _show(journal, tell)
            case ReadJournals():
                await self._read_journals(request, tell)
            case ReadCode():
                await self._read_code(tell)
            case AcceptLines(function, was, now):
                await self._store.commit(AcceptChange(self._store.lease, AcceptedChange(function, was, now)))
            case ReadKept(key, after):
                found = await self._store.keyed(
                    key, after=None if after is None else ChatId(after), limit=_PAGE
                )
                for chat_id, value in found:
                    await tell({"chat_id": chat_id, "value": value})
                await tell({"after": found[-1][0] if len(found) == _PAGE else None})
            case SettleParked():
                await self._settle_parked(request, tell)
            case OrderEnd(conversation):
                await self._order_end(conversation, tell)
            case ListChats(limit):
                if self._chats is None:
                    raise ConflictError("no bot runs, and only a running bot knows what goes on in it")
                for chat in self._chats(limit):
                    await tell(chat)
            case Forget(chat_id):
                await tell(await self._forget(chat_id))
            case Reach():
                if self._reach is None:
                    raise ConflictError("no bot runs, and only a running bot reaches its chats")
                await tell(await self._reach(request))
            case Backup(path):
                await self._store.backup(path)
                await tell({"path": str(path)})
            case StreamStore():
                await self._stream(tell)
            case AboutJobs():
                if self._jobs is None:
                    raise ConfigError("nobody here knows of jobs")
                for job in await self._jobs(request):
                    await tell(job)
            case ListAlarms():
                await self._list_alarms(tell)
            case EndAlarms(kind, key, all):
                if kind is None and key is None and not all:
                    raise ConfigError("say which alarms: by kind, by key, or all")
                kinds = () if kind is None else (kind,)
                await self._store.commit(AcknowledgeAlarms(kinds, key, self._clock.now()))
                await self._list_alarms(tell)
            case AboutBroadcasts(fields):
                if self._broadcasts is None:
                    raise ConfigError("nobody here knows of broadcasts")
                await tell(await self._broadcasts(fields))
            case AboutPayments(fields):
                if self._payments is None:
                    raise ConfigError("nobody here knows of payments")
                await tell(await self._payments(fields))
            case _:
                assert_never(request)

    async def _stream(self, tell: Tell) -> None:
        """Send the store as `Shipped` pieces, after a first line that identifies the store."""
        stream, opening = self._store.stream, self._store.opening()
        if stream is None:
            raise ConfigError("only a store in a file can be streamed")
        store = await self._store.setting(STREAM_ID)
        if store is None:
            store = token_hex(16)
            await self._store.commit(PutSetting(STREAM_ID, store))
        begun: Answer = {
            "stream": STREAM_FORMAT,
            "store": store,
            "bot": self.name,
            "epoch": opening.epoch,
            "boot": opening.boot,
        }
        said = False

        async def tell_piece(piece: Shipped) -> None:
            nonlocal said
            if not said:
                said = True
                await tell(begun)
            await tell(attrs.asdict(piece))

        await stream.ship(tell_piece)

    async def _list_alarms(self, tell: Tell) -> None:
        for row in await self._open_alarms({} if self._health is None else self._health()):
            await tell({**attrs.asdict(row), "act": ABOUT[row.kind].act.replace("REF", row.key)})

    async def _open_alarms(self, health: Answer) -> Collection[AlarmRow]:
        """Return the open alarms in the store, and open alarms that the store could not save."""
        unstored = cast("Sequence[AlarmRow]", health.get("alarms", ()))
        rows = [*await self._store.alarms.open(limit=_MOST_ALARMS), *unstored]
        return {(row.kind, row.key): row for row in rows}.values()

    async def metrics(self) -> Answer:
        """Return the data of the metrics: the status, and the store's latencies.

        Raises:
            StoreError: the store could not be read.
        """
        return {**await self.status(), "store_latencies": self._store.latencies()}

    async def status(self) -> Answer:
        """Return the bot's status, the answer to `Status`.

        Raises:
            StoreError: the store could not be read.
        """
        opening, statistics = self._store.opening(), self._store.statistics()
        oldest = await self._store.backlog(after=0, limit=1)
        now = self._clock.now()
        told: dict[str, object] = {
            "running": self._health is not None,
            "at": now,
            "opened_at": opening.at if self._health is not None else opening.previous_at,
            "unclean": opening.unclean,
            "epoch": opening.epoch,
            "risk": opening.risk,
            "conversations": statistics.conversations,
            "parked": statistics.parked,
            "next_wake": await self._store.next_wake(),
            "inbox": statistics.inbox,
            "inbox_bytes": statistics.inbox_bytes,
            "oldest_event_at": oldest[0].at if oldest else None,
            "unknown_effects": await self._store.unknown_effects(),
            "raw": statistics.raw,
            "payments": dict(await self._store.payments.counts()),
        }
        if self._payments is not None:
            told["money"] = await self._payments({"ask": "payments.ages"})
        if self._health is not None:
            if opening.node is not None:
                told["node"] = opening.node
            told |= self._health()
        alarms = await self._open_alarms(told)
        told["alarms"] = [attrs.asdict(alarm) for alarm in alarms]
        told["open_alarms"], told["open_alarm_kinds"] = len(alarms), Counter(alarm.kind for alarm in alarms)
        if (stream := self._store.stream) is not None and (attached := stream.attached) is not None:
            told["stream"] = {"since": attached[0], "as_of": attached[1]}
        if self._lag is not None:
            told["event_lag"] = await self._lag()
        return told

    async def _forget(self, chat_id: ChatId) -> Answer:
        """Delete all data of a chat or another place, unless a payment in it is open.

        ``found`` in the result: whether there was any data, including conversations that this call has ended.
        """
        payments = self._payments if is_chat(chat_id) else None
        if payments is not None:
            # Check before ending anything: a bot that has captured money must give the goods.
            await payments({"ask": "payments.forget", "chat": chat_id, "captured": True})
        stood = [
            *await self._store.pending(chat_id, after=0, limit=1),
            *await self._store.conversations(chat_id),
        ]
        if self._end is not None:
            await self._end(chat_id)
        erased: Answer = {}
        if payments is not None:
            erased = await payments({"ask": "payments.forget", "chat": chat_id})
        gone = attrs.asdict(await self._store.forget(chat_id))
        return {**gone, "found": bool(stood) or any([*gone.values(), *erased.values()])}

    async def _settle_parked(self, request: SettleParked, tell: Tell) -> None:
        """Count parked conversations by route and reason; unless `dry`, end them or try them again."""
        found: Counter[tuple[str, str]] = Counter()
        done = 0
        if not request.dry and self._order is None:
            raise ConfigError("nobody here can end a conversation, or try it again")
        chosen = (request.conversation, request.chat_id, request.route, request.because)
        if not request.dry and chosen == (None, None, None, None):
            raise ConfigError("say which ones: by conversation, chat_id, route or because")
        after = 0 if request.conversation is None else request.conversation - 1
        limit = _PAGE if request.conversation is None else 1
        while rows := await self._store.parked(after=after, limit=limit):
            after = rows[-1].id
            for row in rows:
                if not _fits(row, request):
                    continue
                found[row.route, row.parked_because or ""] += 1
                if not request.dry and self._order is not None:
                    done += await self._order(row, request.end, request.say)
            if request.conversation is not None:
                break
        if not found and request.conversation is not None:
            raise ConflictError(f"conversation {request.conversation} isn't parked")
        for (route, because), count in found.most_common():
            await tell({"route": route, "because": because, "count": count})
        await tell({"parked": found.total(), "done": done})

    async def _order_end(self, conversation: ConversationId, tell: Tell) -> None:
        if self._order is None:
            raise ConfigError("nobody here can end a conversation")
        journal = await self._filing.journal(conversation)
        if journal is None or journal.row.ended_at is not None:
            raise ConflictError(f"conversation {conversation} has ended already")
        await tell({"ordered": await self._order(journal.row, True, "")})

    async def _list(self, request: ListJournals, tell: Tell) -> None:
        if request.chat_id is not None:
            ids = await self._filing.of_chat(request.chat_id, crashed=request.crashed)
            for id in [id for id in ids if id > request.after][: request.limit]:
                await self._tell_row(id, tell)
            return
        after: int | None = request.after
        left = request.limit
        while left and after is not None:
            rows, after = await self._filing.rows(after)
            for row in rows[:left]:
                await self._tell_row(row.id, tell)
            left -= len(rows[:left])

    async def _read_journals(self, request: ReadJournals, tell: Tell) -> None:
        rows, end = await self._filing.rows(request.after)
        for row in rows:
            if row.ended_at is not None:
                continue
            if not request.whole:
                await tell({"conversation": row.id, "route": row.route})
            elif (journal := await self._filing.journal(row.id)) is not None:
                await tell({"journal": list(journal_lines(journal))})
        await tell({"after": end})

    async def _read_code(self, tell: Tell) -> None:
        known = await self._store.code()
        for digest, name in known.sources.items():
            await tell({"source": digest, "name": name, "text": await self._store.source(digest)})
        for site in known.sites:
            await tell({"site": list(site)})
        for deployed in known.deployed:
            await tell({"at": deployed.at, "build": deployed.build, "sources": list(deployed.sources)})
        for change in known.accepted:
            await tell({"accepted": [change.function, change.was, change.now]})

    async def _tell_row(self, id: ConversationId, tell: Tell) -> None:
        journal = await self._filing.journal(id)
        if journal is not None:  # the conversation may have ended since the list was read
            records = journal.records
            told: dict[str, object] = {"room": room_in(records[0])} if records else {}
            told["last_record"] = outlined(records[-1]) if records else None
            await tell({**row_fields(journal.row), **told, "effects": len(journal.effects)})


def _fits(row: ConversationRow, request: SettleParked) -> bool:
    return (
        request.conversation in (None, row.id)
        and request.chat_id in (None, row.chat_id)
        and request.route in (None, row.route)
        and (request.because or "") in (row.parked_because or "")
    )


async def _show(journal: Journal, tell: Tell) -> None:
    for line in journal_lines(journal):
        await tell(line)


def journal_lines(journal: Journal) -> Iterator[Answer]:
    """Yield the lines of a journal: the conversation's row, the records, and the effects."""
    yield row_fields(journal.row)
    for n, record in enumerate(journal.records, start=journal.first):
        yield {"n": n, "record": record}
    for operation, effect in journal.effects.items():
        yield {"operation": operation, **attrs.asdict(effect)}


def row_fields(row: ConversationRow) -> Answer:
    """Return the fields of a conversation's row, except the lease."""
    fields = attrs.asdict(row, filter=lambda attribute, _: attribute.name != "lease")
    fields["conversation"] = fields.pop("id")
    return fields


Begun: TypeAlias = Callable[[InboxRow, Lease], Journal | None]
"""Returns the journal of the conversation that an event's row has begun, or None."""


def _nothing(row: InboxRow, lease: Lease) -> Journal | None:
    return None


@final
class Filing:
    """Reads conversations, oldest first."""

    def __init__(self, store: Store, begun: Begun | None = None) -> None:
        self._store = store
        self._begun = begun or _nothing

    async def journal(self, conversation: ConversationId) -> Journal | None:
        """Return a conversation's whole journal; None if there is no such conversation."""
        found = await self._store.journal(conversation)
        if found is None:
            rows = await self._store.backlog(after=conversation - 1, limit=1)
            begun = [one for one in self._of(rows) if one.row.id == conversation]
            # The conversation may have been written to the store since the first query.
            found = begun[0] if begun else await self._store.journal(conversation)
        return found

    async def of_chat(self, chat_id: ChatId, *, crashed: bool = False) -> Sequence[ConversationId]:
        """Return the ids of a chat's conversations that have not ended; with `crashed`, also crashed
        conversations that are kept.
        """
        # Only the chat's oldest row can have begun a conversation: while older events wait, no event begins a
        # conversation from its row.
        rows = await self._store.pending(chat_id, after=0, limit=1)
        stored = [*await self._store.conversations(chat_id)]
        if crashed:
            stored += await self._store.crashed(chat_id)
        return sorted({one.row.id for one in self._of(rows)} | {row.id for row in stored})

    async def rows(self, after: int) -> tuple[Sequence[ConversationRow], int | None]:
        """Return a page of conversations with ids above `after`, and the next page's `after`; None at the
        end.
        """
        # Read the event rows first: a conversation that is written to the store between the two queries is
        # found by the second query.
        rows = await self._store.backlog(after=after, limit=_ROWS)
        stored = await self._store.all_conversations(after=after, limit=_ROWS)
        # If a page is full, the store may have further rows of this kind with ids below the last ids of the
        # other page. So return only ids up to the end of the full page.
        ends = [rows[-1].seq] if len(rows) == _ROWS else []
        ends += [stored[-1].id] if len(stored) == _ROWS else []
        end = min(ends, default=None)
        found = {one.row.id: one.row for one in self._of(rows)} | {row.id: row for row in stored}
        return [found[id] for id in sorted(found) if end is None or id <= end], end

    def _of(self, rows: Sequence[InboxRow]) -> Sequence[Journal]:
        found = [self._begun(row, self._store.lease) for row in rows if row.begun is not None]
        return [journal for journal in found if journal is not None]

"""Answers an operator's requests, with data of a store and with the state of a running bot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, cast, final

import attrs

from ..base.alarm_kinds import ABOUT, AlarmKind
from ..base.clock import WallClock
from ..errors import ConfigError, ConflictError, LocalProtocolError, NotFoundError
from ..seams.inbox import InboxRow
from ..seams.journals import AcceptedChange, ConversationId, ConversationRow, Journal
from ..seams.money import AcknowledgeAlarms, AlarmRow
from ..seams.rooms import is_chat
from ..store import Store
from ..wire.ids import ChatId
from .outline import outlined, room_in
from .routes import Answer, Question, check_question

_MOST_ALARMS: Final = 1_000
_PAGE: Final = 256
_USUAL: Final = 100
LONGEST_WORDS: Final = 4_000
"""Largest number of characters of a message to the users of an ended conversation."""

Tell = Callable[[Answer], Awaitable[None]]
Begun: TypeAlias = Callable[[InboxRow], Journal | None]
"""Returns the journal of the conversation that an event's row has begun, or None."""

_ROWS: Final = 100


def _without_a_bot(*_: object) -> NoReturn:
    raise ConflictError("no bot runs, and only a running bot reaches its chats")


@final
@attrs.define(eq=False)
class OperatorApi:
    """Answers an operator's requests.

    Args:
        name: the bot's name in metrics.
        health: returns the running bot's state; None without a running bot.
        lag: returns how many seconds the oldest event has been waiting for its chat.
        chats: yields the state of chats in memory; its argument is the largest number of chats.
        begun: makes the journal of a conversation that is stored only as its event's row. None if there are
            no such conversations.
        end: ends all conversations in a chat, and returns once they have ended.
        order: orders the end of a parked conversation, with a message to the users, or another try. The order
            is durable when `order` returns. Returns False if the end was ordered before.
        broadcasts: answers requests about broadcasts.
        payments: answers requests about payments and their alarms.
        jobs: answers requests about jobs.
        reach: sends a message or a signal to a chat, or starts a route in the chat.

    Without `chats`, `order`, `broadcasts`, `payments`, `jobs` or `reach`, a request that needs the missing
    function raises ConflictError: no bot runs.
    """

    _store: Store = attrs.field(alias="store")
    _clock: WallClock = attrs.field(alias="clock")
    name: str = ""
    _health: Callable[[], Answer] | None = attrs.field(default=None, alias="health")
    _lag: Callable[[], Awaitable[float]] | None = attrs.field(default=None, alias="lag")
    _chats: Callable[[int], Iterable[Answer]] = attrs.field(default=_without_a_bot, alias="chats")
    _begun: Begun | None = attrs.field(default=None, alias="begun")
    _end: Callable[[ChatId], Awaitable[None]] | None = attrs.field(default=None, alias="end")
    _order: Callable[[ConversationRow, bool, str], Awaitable[bool]] = attrs.field(
        default=_without_a_bot, alias="order"
    )
    _broadcasts: Callable[[Question], Awaitable[Answer]] = attrs.field(
        default=_without_a_bot, alias="broadcasts"
    )
    _payments: Callable[[Question], Awaitable[Answer]] | None = attrs.field(default=None, alias="payments")
    _jobs: Callable[[Question], Awaitable[Sequence[Answer]]] = attrs.field(
        default=_without_a_bot, alias="jobs"
    )
    _reach: Callable[[Question], Awaitable[Answer]] = attrs.field(default=_without_a_bot, alias="reach")

    @property
    def _filing(self) -> Filing:
        return Filing(self._store, self._begun)

    async def answer(self, question: Question, tell: Tell) -> None:
        """Answer a request by calling `tell` with each line of the answer.

        Raises:
            NotFoundError: the request names an object that doesn't exist.
            ConflictError: the current state forbids the action.
            ConfigError, ProtocolError: the request is incomplete or invalid.
            StoreError: the store failed.
        """
        route, given = check_question(question)
        match route.ask:
            case "status":
                await tell(await self.status())
            case "journals.list":
                await self._list(tell, **given)
            case "journals.open":
                await self._read_journals(tell, **given)
            case "journals.code":
                await self._read_code(tell)
            case "journals.accept":
                await self._store.commit(AcceptedChange(**given))
            case "journals.show":
                await self._show(tell, given["conversation"])
            case "journals.end":
                await self._order_end(tell, given["conversation"])
            case "kept":
                await self._read_kept(tell, **given)
            case "parked.count":
                await self._settle_parked(tell, None, **given)
            case "parked.end" | "parked.retry":
                await self._settle_parked(tell, route.ask, **given)
            case "chats.list":
                for chat in self._chats(given.get("limit", _USUAL)):
                    await tell(chat)
            case "chats.forget":
                await tell(await self._forget(given["chat_id"]))
            case "chats.send" | "chats.signal" | "chats.start":
                await tell(await self._reach(question))
            case "jobs.list" | "jobs.run":
                for job in await self._jobs(question):
                    await tell(job)
            case "backup":
                await self._back_up(tell, Path(given["path"]))
            case "alarms.list":
                await self._list_alarms(tell)
            case "alarms.acknowledge":
                await self._end_alarms(tell, **given)
            case "broadcast.list" | "broadcast.status" | "broadcast.stop":
                await tell(await self._broadcasts(question))
            case _ if self._payments is not None:
                await tell(await self._payments(question))
            case _:
                _without_a_bot()

    async def _show(self, tell: Tell, conversation: ConversationId) -> None:
        journal = await self._filing.journal(conversation)
        if journal is None:
            raise NotFoundError(f"there is no conversation {conversation}; it has ended, or never began")
        for line in journal_lines(journal):
            await tell(line)

    async def _read_kept(self, tell: Tell, key: str, after: ChatId | None = None) -> None:
        """Answer with a page of the values that places store under `key`, and the start of the next page."""
        found = await self._store.keyed(key, after=after, limit=_PAGE)
        for chat_id, value in found:
            await tell({"chat_id": chat_id, "value": value})
        await tell({"after": found[-1][0] if len(found) == _PAGE else None})

    async def _back_up(self, tell: Tell, path: Path) -> None:
        if not path.is_absolute():
            raise LocalProtocolError("path", "must be absolute")
        await self._store.backup(path)
        await tell({"path": str(path)})

    async def _end_alarms(
        self, tell: Tell, kind: AlarmKind | None = None, key: str | None = None, *, all: bool = False
    ) -> None:
        """Acknowledge alarms, and list the alarms that are still open."""
        if kind is None and key is None and not all:
            raise ConfigError("say which alarms: by kind, by key, or all")
        if kind is not None and kind not in ABOUT:
            raise LocalProtocolError("kind", "must be one that the docs' page alarms lists")
        kinds = () if kind is None else (kind,)
        await self._store.commit(AcknowledgeAlarms(kinds, key, self._clock.now()))
        await self._list_alarms(tell)

    async def _list_alarms(self, tell: Tell) -> None:
        for row in await self._open_alarms({} if self._health is None else self._health()):
            await tell({**attrs.asdict(row), "act": ABOUT[row.kind].act.replace("REF", row.key)})

    async def _open_alarms(self, health: Answer) -> Collection[AlarmRow]:
        """Return the open alarms in the store, and the open alarms that the store could not save."""
        unstored = cast("Sequence[AlarmRow]", health.get("alarms", ()))
        rows = [*await self._store.alarms.open(limit=_MOST_ALARMS), *unstored]
        return {(row.kind, row.key): row for row in rows}.values()

    async def metrics(self) -> Answer:
        """Return the data from which the metrics are made: the status, and the store's latencies.

        Raises:
            StoreError: the store could not be read.
        """
        return {**await self.status(), "store_latencies": self._store.latencies()}

    async def status(self) -> Answer:
        """Return the bot's status, the answer to ``status``.

        Raises:
            StoreError: the store could not be read.
        """
        opening, statistics = self._store.opening(), self._store.statistics()
        oldest = await self._store.backlog(after=0, limit=1)
        now = self._clock.now()
        body: dict[str, object] = {
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
            body["money"] = await self._payments({"ask": "payments.ages"})
        if self._health is not None:
            if opening.node is not None:
                body["node"] = opening.node
            body |= self._health()
        alarms = await self._open_alarms(body)
        body["alarms"] = [attrs.asdict(alarm) for alarm in alarms]
        body["open_alarms"], body["open_alarm_kinds"] = len(alarms), Counter(alarm.kind for alarm in alarms)
        if self._lag is not None:
            body["event_lag"] = await self._lag()
        return body

    async def _forget(self, chat_id: ChatId) -> Answer:
        """Delete all data of a chat or another place, unless a payment in the chat is open.

        ``found`` in the result says whether there was any data, including conversations that this call has
        ended.
        """
        payments = self._payments if is_chat(chat_id) else None
        if payments is not None:
            # Check for open payments before any conversation is ended: a bot that has captured money must
            # give the goods.
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

    async def _settle_parked(
        self,
        tell: Tell,
        ask: str | None,
        conversation: ConversationId | None = None,
        *,
        say: str = "",
        **chosen: Any,
    ) -> None:
        """Count parked conversations by route and reason. If `ask` is given, also order the end of these
        conversations, or another try.

        Args:
            say: message to the users after the end.
            chosen: `chat_id` or `route` of the conversations, or `because`, a text in the reason.
        """
        if len(say) > LONGEST_WORDS:
            raise LocalProtocolError("say", f"must be at most {LONGEST_WORDS} characters")
        if ask is not None and conversation is None and not chosen:
            raise ConfigError("say which ones: by conversation, chat_id, route or because")
        found: Counter[tuple[str, str]] = Counter()
        done = 0
        after = 0 if conversation is None else conversation - 1
        limit = _PAGE if conversation is None else 1
        while rows := await self._store.parked(after=after, limit=limit):
            after = rows[-1].id
            for row in rows:
                if conversation not in (None, row.id) or not _fits(row, **chosen):
                    continue
                found[row.route, row.parked_because or ""] += 1
                if ask is not None:
                    done += await self._order(row, ask == "parked.end", say)
            if conversation is not None:
                break
        if not found and conversation is not None:
            raise ConflictError(f"conversation {conversation} isn't parked")
        for (route, because), count in found.most_common():
            await tell({"route": route, "because": because, "count": count})
        await tell({"parked": found.total(), "done": done})

    async def _order_end(self, tell: Tell, conversation: ConversationId) -> None:
        journal = await self._filing.journal(conversation)
        if journal is None or journal.row.ended_at is not None:
            raise ConflictError(f"conversation {conversation} has ended already")
        await tell({"ordered": await self._order(journal.row, True, "")})

    async def _list(
        self,
        tell: Tell,
        chat_id: ChatId | None = None,
        after: int | None = 0,
        limit: int = _USUAL,
        *,
        crashed: bool = False,
    ) -> None:
        """List conversations with ids above `after`.

        Args:
            chat_id: only conversations of this chat that have not ended.
            crashed: with `chat_id`: also crashed conversations that are kept.
        """
        if chat_id is not None:
            ids = await self._filing.of_chat(chat_id, crashed=crashed)
            for id in [id for id in ids if id > (after or 0)][:limit]:
                await self._tell_row(id, tell)
            return
        while limit and after is not None:
            rows, after = await self._filing.rows(after)
            for row in rows[:limit]:
                await self._tell_row(row.id, tell)
            limit -= len(rows[:limit])

    async def _read_journals(self, tell: Tell, after: int = 0, *, whole: bool = True) -> None:
        """Answer with a page of the journals of conversations that have not ended, and the start of the
        next page.

        Args:
            whole: whether to include the records. Without the records, the answer has only ids and routes.
        """
        rows, end = await self._filing.rows(after)
        for row in rows:
            if row.ended_at is not None:
                continue
            if not whole:
                await tell({"conversation": row.id, "route": row.route})
            elif (journal := await self._filing.journal(row.id)) is not None:
                await tell({"journal": list(journal_lines(journal))})
        await tell({"after": end})

    async def _read_code(self, tell: Tell) -> None:
        known = await self._store.code.all()
        for digest, (name, text) in known.sources.items():
            await tell({"source": digest, "name": name, "text": text})
        for site in known.sites:
            await tell({"site": list(site)})
        for deployed in known.deployed:
            await tell({"at": deployed.at, "build": deployed.build, "sources": list(deployed.sources)})
        for change in known.accepted:
            await tell({"accepted": [change.function, change.was, change.now]})

    async def _tell_row(self, id: ConversationId, tell: Tell) -> None:
        journal = await self._filing.journal(id)
        if journal is not None:  # the conversation may have ended after the list was read
            records = journal.records
            ends: dict[str, object] = {"room": room_in(records[0])} if records else {}
            ends["last_record"] = outlined(records[-1]) if records else None
            await tell({**row_fields(journal.row), **ends, "effects": len(journal.effects)})


def _fits(
    row: ConversationRow, chat_id: ChatId | None = None, route: str | None = None, because: str = ""
) -> bool:
    return (
        chat_id in (None, row.chat_id)
        and route in (None, row.route)
        and because in (row.parked_because or "")
    )


def journal_lines(journal: Journal) -> Iterator[Answer]:
    """Yield the lines of a journal: the conversation's row, the records, and the effects."""
    yield row_fields(journal.row)
    for n, record in enumerate(journal.records, start=journal.first):
        yield {"n": n, "record": record}
    for operation, effect in journal.effects.items():
        yield {"operation": operation, **attrs.asdict(effect)}


def row_fields(row: ConversationRow) -> Answer:
    fields = attrs.asdict(row)
    fields["conversation"] = fields.pop("id")
    return fields


@final
@attrs.define(eq=False)
class Filing:
    """Reads conversations and their journals, oldest first."""

    _store: Store
    _begun: Begun | None = None

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
        # A new conversation is stored in its event's row only if no older event waits. So only the chat's
        # oldest inbox row can contain a conversation.
        rows = await self._store.pending(chat_id, after=0, limit=1)
        stored = [*await self._store.conversations(chat_id)]
        if crashed:
            stored += await self._store.conversations(chat_id, ended=True)
        return sorted({one.row.id for one in self._of(rows)} | {row.id for row in stored})

    async def rows(self, after: int) -> tuple[Sequence[ConversationRow], int | None]:
        """Return a page of conversations with ids above `after`, and the next page's `after`; None at the
        end.
        """
        # Read the inbox rows first: the second query then finds a conversation that is written to the store
        # between the two queries.
        rows = await self._store.backlog(after=after, limit=_ROWS)
        stored = await self._store.all_conversations(after=after, limit=_ROWS)
        # A full page may lack rows whose ids are below the other page's last id. So return only ids up to the
        # end of a full page.
        ends = [rows[-1].seq] if len(rows) == _ROWS else []
        ends += [stored[-1].id] if len(stored) == _ROWS else []
        end = min(ends, default=None)
        found = {one.row.id: one.row for one in self._of(rows)} | {row.id: row for row in stored}
        return [found[id] for id in sorted(found) if end is None or id <= end], end

    def _of(self, rows: Sequence[InboxRow]) -> Sequence[Journal]:
        if (begun := self._begun) is None:
            return []
        found = [begun(row) for row in rows if row.begun is not None]
        return [journal for journal in found if journal is not None]

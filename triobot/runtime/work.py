"""The components of a running bot, and the order in which the components stop.

There are two layers: the intake, and the work inside the intake. The *intake* is the store and the inbox. The
intake accepts events from the bot's start until the very end. The *work* is the client, the outbox and the
dispatcher. So a stop has this order: the dispatching stops, the conversations stop, the outbox empties, the
listener closes, the store closes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, cast, final

import attrs
import trio

from ..alarms.sink import AlarmSink
from ..base.alarm_kinds import Alarm, AlarmKind, OnAlarm, RaiseAlarm, text_of
from ..base.clock import JUMPED, Timepiece, WallClock
from ..base.extras import needing
from ..base.frozen import guarded
from ..client import PlatformClient
from ..client.address import own_hosts
from ..conversations.calls.chat_calls import give_order
from ..conversations.calls.from_json import read_signal, read_start
from ..conversations.charges.paid import deliver as deliver_money
from ..conversations.charges.paid import goes_on
from ..conversations.conversation import Services
from ..conversations.data import Speech
from ..conversations.dispatcher import Dispatcher
from ..conversations.inspection.portrait import whose
from ..conversations.jobs import SETTING, JobClock, jobs_view, read_known, run_later
from ..conversations.notices import Notify
from ..conversations.revival.code import Code
from ..conversations.revival.stored import begun_journal
from ..conversations.routes.router import Table
from ..conversations.services import Instead, OnFailure, Tracer, tell_nobody
from ..errors import ConfigError, ConflictError, RefusedError, StoreError, TransportError
from ..operator.api import OperatorApi
from ..operator.loopback import socket_path
from ..operator.routes import Answer, Question
from ..operator.serving import serve_api
from ..outbox import Broadcasts, LaneOutbox, OutboxRules, OutboxStatistics, open_broadcasts, open_outbox
from ..outbox.broadcasts import answer, stop_stored
from ..outbox.pacing import PaceRules
from ..payments.admin import PaymentsAdmin
from ..payments.cashier import Cashier
from ..payments.entries import Entries
from ..payments.entry import Entry
from ..payments.facts import PaymentAnswer
from ..seams.inbox import Quota
from ..seams.journals import ConversationRow
from ..seams.money import Captured, MovePayment
from ..seams.outbox import Outbox, Platform, Urgency
from ..seams.resources import Opened, Provided
from ..seams.values import reading
from ..seams.writes import PutSetting, StoreStatistics
from ..store import DAY, Retention, Stamp, Store, open_store
from ..webhook.answers import Readiness, TrafficCounters
from ..webhook.inbox import Inbox
from ..webhook.kept_secrets import forget_former, webhook_secrets
from ..webhook.secrets import Secrets
from ..wire.ids import ChatId
from ..wire.operations import SendMessage
from ..wire.rules import JsonValue
from .lease_guard import HeldPlatform, held_steps
from .logs import KEY, Speaker, Whose, new_key, registered, speaking
from .settings import Settings

if TYPE_CHECKING:
    import httpx

    from ..alarms.targets import Courier
    from ..conversations.early import EarlyDoor
    from ..conversations.inspection.checking import ReplayCheck
    from .tracing import Tracing

log: Final = logging.getLogger("triobot")

_MOST_ENDED: Final = 200
"""Maximum number of normally ended conversations whose journals are kept for a developer."""
# Seconds between two checks whether a stop still has to wait.
_LOOK_SECONDS: Final = 0.1
_HOUR: Final = 3600.0
# Minimum length of a token that is replaced in texts. A shorter token is a test's token, and may occur as a
# word in any line.
_TELLS: Final = 8
_PAGE: Final = 256


@final
@guarded(kw_only=True)
class Surroundings:
    """Replacements for the real store, clock and network of a bot, for tests and simulations.

    Attributes:
        settings: used instead of the environment.
        clock: time of day.
        transport: sends requests to the platform, and downloads.
        store: an open store, which stays open after the bot's stop.
        on_alarm: called with each alarm at once, before the author's hook.
        provided: values that replace resources.
        opened: called with the intake once events can be accepted.
        replays: checks each conversation by replays while the conversation runs. None: conversations aren't
            checked.
        on_failure: called with each error of the bot's own code.
        instead: called instead of each step's function; background tasks then don't run. None: steps and
            tasks run normally.
    """

    settings: Settings
    clock: WallClock
    transport: httpx.AsyncBaseTransport
    store: Store
    on_alarm: RaiseAlarm
    provided: Sequence[Provided] = ()
    opened: Callable[[Intake], None]
    replays: ReplayCheck | None = None
    on_failure: OnFailure = tell_nobody
    instead: Instead | None = None


@final
@guarded
class Statistics:
    """Counts of a running bot's work and state.

    Attributes:
        live: number of conversations in memory, parked or not.
        counts: counters of the conversations' work, by name, such as ``revived``.
        payments: number of facts about payments so far, by the ledger's name for the fact.
    """

    live: int
    counts: Mapping[str, int]
    store: StoreStatistics
    outbox: OutboxStatistics
    payments: Mapping[str, int] = attrs.field(factory=dict[str, int])


@final
class Intake:
    """The store and the inbox; accepts events while open."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        secrets: Secrets,
        clock: Timepiece,
        sink: AlarmSink,
        voice: Speaker,
        inbox: Inbox | None = None,
    ) -> None:
        self.settings = settings
        self.voice = voice
        self.store = store
        self.secrets = secrets
        self.clock = clock
        self.work: Runtime | None = None
        # Kinds of work with a backlog; None before the first check.
        self.late: frozenset[str] | None = None
        self.sink = sink
        # Counters of triobot's own listener; with several bots, the first bot has them.
        self.traffic: TrafficCounters | None = None
        self.api = OperatorApi(
            store,
            clock,
            name=settings.label,
            health=self.health,
            lag=self.lag,
            chats=self.chats,
            begun=begun_journal,
            end=self.end_chat,
            order=self.order,
            broadcasts=self.about_broadcasts,
            payments=self.about_payments,
            jobs=self.about_jobs,
            reach=self.reach,
        )
        self.couriers: Sequence[Courier] = ()
        self.inbox: Inbox = inbox or Inbox(store, clock=clock, quota=Quota(), alarm=sink.ring)

    @property
    def apis(self) -> Sequence[OperatorApi]:
        return [self.api]

    @property
    def store_state(self) -> Literal["ok", "unwritable", "away"]:
        """State of the store: "away" if this process may have lost the store, "unwritable" if the last write
        failed.
        """
        if (held := self.store.held) is not None and not held():
            return "away"
        return "unwritable" if self.inbox.failing else "ok"

    def readiness(self) -> Readiness:
        """Return the state for ``/readyz``."""
        work = self.work
        working = work is not None and not work.dispatcher.work.stopping
        outbox = None if work is None else work.outbox.statistics()
        states = {
            "store": self.store_state,
            "conversations": "working" if working else "stopped",
            "outbox": "held" if outbox is not None and outbox.held else "ok",
        }
        # If the outbox is held for another reason than a refused token, the bot stays ready. A bot that isn't
        # ready gets no new events, and only new events lead to sends that can end the outbox's hold.
        refused = outbox is not None and outbox.token_refused
        return Readiness(working and not refused and self.store_state == "ok", states)

    async def lag(self) -> float:
        """Return how many seconds the oldest event has been waiting for its chat."""
        since = None if self.work is None else await self.work.dispatcher.oldest()
        return 0.0 if since is None else max(0, self.clock.now() - since) / 1000

    async def is_over(self, kind: AlarmKind, key: str, quiet: float) -> bool:
        """Return whether the state that an alarm reports is known to be over.

        Args:
            quiet: seconds since the alarm was last raised.
        """
        work = self.work
        match kind:
            case "token_refused" | "outbox_held":
                return work is not None and work.outbox.works()
            case "conversation_parked":
                return not await _has_parked(self.store, key)
            case "signal_unreadable":
                return not self.sink.has_rung(kind, key)
            case "store_unwritable":
                try:
                    await self.store.check()
                except StoreError:
                    return False
                return self.store_state == "ok"
            case "inbox_half_full":
                return self.inbox.roomy
            case "alarm_untold":
                return all(courier.works for courier in self.couriers if courier.name == key)
            case "backlog":
                return self.late is not None and key not in self.late
            case "answer_unreadable" | "chat_refused" | "request_unreadable":
                return quiet >= _HOUR
            case "clock_differs":
                return True  # while the clocks differ, each check raises the alarm again
            case _:
                return False

    def health(self) -> Mapping[str, object]:
        """Return the running bot's state for an operator, in addition to the store's state.

        ``states`` has the states of the store, the conversations and the outbox. ``working`` is False if the
        store or the conversations don't work, or if the platform refuses the token. ``send_age`` is how many
        seconds the oldest operation has been waiting. All counts are since the start.
        """
        work, readiness = self.work, self.readiness()
        return {
            "working": readiness.ready,
            "states": dict(readiness.states),
            "arrived": attrs.asdict(self.inbox.statistics()),
            **({} if self.traffic is None else {"traffic": attrs.asdict(self.traffic.statistics())}),
            "send_age": 0.0 if work is None else work.outbox.oldest,
            "live": 0 if work is None else len(work.dispatcher.tasks.running),
            "counts": {} if work is None else dict(work.dispatcher.work.counts),
            "outbox": {} if work is None else attrs.asdict(work.outbox.statistics()),
            "payment_facts": {} if work is None else dict(work.cashier.entries.counts),
            "alarms": self.sink.unstored(),
        }

    def chats(self, limit: int) -> Iterable[Mapping[str, object]]:
        """Return descriptions of the chats in memory, for an operator."""
        if (work := self.work) is None:
            return []
        seen = work.dispatcher.chats.portraits(limit)
        lanes = [work.outbox.lane(cast("ChatId", chat["chat_id"])) for chat in seen]
        return [{**chat, "lane": attrs.asdict(lane)} for chat, lane in zip(seen, lanes, strict=True)]

    async def about_payments(self, question: Question) -> Answer:
        """Answer an operator's request about payments and alarms."""
        work, clock = self.work, self.clock
        if work is None:
            return await _admin_of(self.store, clock).answer(question)
        cashier = work.cashier

        async def inquire(entry: Entry) -> PaymentAnswer:
            return await cashier.ask(entry, "inquire")

        return await PaymentsAdmin(self.store, cashier.entries, clock.now, inquire=inquire).answer(question)

    async def about_broadcasts(self, question: Question) -> Answer:
        """Answer an operator's request about broadcasts."""
        stop = partial(stop_stored, self.store) if self.work is None else self.work.broadcasts.stop
        return await answer(self.store, stop, cast("Mapping[str, JsonValue]", question))

    async def reach(self, question: Question) -> Answer:
        """Send a message or a signal to a chat, or start a route in the chat, on behalf of another process.

        Raises:
            ConflictError: the bot has not begun its work, or the platform didn't accept the message.
            ConfigError: there is no such class or route, or the value doesn't fit the class or route.
        """
        if (work := self.work) is None:
            raise ConflictError("the bot has not begun its work; ask again")
        asked = cast("Mapping[str, str | None]", question)
        chat_id, value = cast("ChatId", question["chat_id"]), asked.get("value") or ""
        if question["ask"] == "chats.send":
            try:
                outbox = work.dispatcher.services.outbox
                sent = await outbox.perform(SendMessage(chat_id, value), urgency=Urgency.REPLY)
            except (RefusedError, TransportError) as error:
                raise ConflictError(f"it was not sent: {error}") from error
            return {"message_id": sent.id}
        chat_calls = work.dispatcher.chat_calls
        table, name, key = chat_calls.table, asked["name"] or "", asked.get("key")
        if question["ask"] == "chats.signal":
            return {"done": await chat_calls.signal(chat_id, read_signal(table, name, value), key)}
        route, args = read_start(table, name, value)
        return {"done": await chat_calls.start(chat_id, route.name, args, key=key, once=key)}

    async def about_jobs(self, question: Question) -> Sequence[Answer]:
        """Answer an operator's request about jobs."""
        jobs = None if self.work is None else self.work.dispatcher.tasks.jobs
        return await _about_jobs(self.store, self.clock, question, jobs)

    async def order(self, row: ConversationRow, end: bool, say: str) -> bool:
        """Order the end of a parked conversation if `end` is true, else another try."""
        if (work := self.work) is None:
            return await give_order(self.store, self.clock, row, end, say)
        return await work.dispatcher.chat_calls.order(row, end=end, say=say)

    async def end_chat(self, chat_id: ChatId) -> None:
        """End everything in a chat, and drop the chat from running broadcasts."""
        if (work := self.work) is not None:
            await work.broadcasts.forget(chat_id)
            await work.dispatcher.end_chat(chat_id)


def api_of(store: Store, clock: WallClock) -> OperatorApi:
    """Return an operator API for a store on which no bot works."""

    async def about_broadcasts(question: Question) -> Answer:
        return await answer(store, partial(stop_stored, store), cast("Mapping[str, JsonValue]", question))

    return OperatorApi(
        store,
        clock,
        begun=begun_journal,
        order=partial(give_order, store, clock),
        broadcasts=about_broadcasts,
        payments=_admin_of(store, clock).answer,
        jobs=partial(_about_jobs, store, clock),
    )


async def _about_jobs(
    store: Store, clock: WallClock, question: Question, jobs: JobClock | None = None
) -> Sequence[Answer]:
    if jobs is not None:
        await jobs.reckoned.wait()
    if question["ask"] == "jobs.run":
        name = str(question["name"])
        await (run_later(store, clock.now(), name) if jobs is None else jobs.run_now(name))
    return jobs_view(read_known(await store.setting(SETTING)))


def _admin_of(store: Store, clock: WallClock) -> PaymentsAdmin:
    entries = Entries(store.payments, store.commit, clock.now, lambda moved: None)
    return PaymentsAdmin(store, entries, clock.now)


@final
@guarded
class Runtime:
    """The work of a running bot: handles accepted events."""

    platform: PlatformClient
    outbox: LaneOutbox
    dispatcher: Dispatcher
    broadcasts: Broadcasts
    cashier: Cashier
    store: Store
    resources: Opened

    def statistics(self) -> Statistics:
        """Return counts of the bot's work and state in this process."""
        return Statistics(
            live=len(self.dispatcher.tasks.running),
            counts=dict(self.dispatcher.work.counts),
            store=self.store.statistics(),
            outbox=self.outbox.statistics(),
            payments=dict(self.cashier.entries.counts),
        )


@asynccontextmanager
async def open_intake(
    settings: Settings,
    clock: WallClock,
    on_alarm: OnAlarm | None = None,
    *,
    around: Surroundings | None = None,
    inbox: Inbox | None = None,
) -> AsyncGenerator[Intake]:
    """Open the store, and an inbox that uses the store.

    Args:
        inbox: an inbox that is open already; None: a new inbox is made.

    Raises:
        ConfigError: a setting is wrong, or the store belongs to another bot or platform.
        StoreLockedError: another process has the store.
    """
    # The store uses the same `Timepiece`, because each read of the time may detect a jump.
    timepiece = Timepiece(clock)
    async with _opened_store(settings, timepiece, around) as store:
        secrets, untils = await webhook_secrets(settings.webhook_secret, store, timepiece.now())
        voice = Speaker(settings.label, await _log_key(store), partial(covered, settings, secrets))
        sink = AlarmSink(on_alarm, around.on_alarm if around is not None else None)
        with reading("what the store keeps of the clock"):
            jumped, seen = map(int, (await store.setting(JUMPED) or "0 0").split())
        timepiece.take_up(jumped)
        intake = Intake(settings, store, secrets, timepiece, sink, voice, inbox)
        with registered(voice):
            async with trio.open_nursery() as nursery:
                with speaking(voice):
                    if inbox is None:
                        nursery.start_soon(intake.inbox.run)
                    await _begin_intake(intake, nursery, untils, listens=around is None)
                try:
                    with timepiece.telling(partial(_jumped, sink)):
                        timepiece.was_seen(seen)
                        yield intake
                finally:
                    nursery.cancel_scope.cancel()


async def _begin_intake(
    intake: Intake, nursery: trio.Nursery, untils: Sequence[int], *, listens: bool
) -> None:
    """Start the tasks that accompany the inbox.

    Args:
        untils: for each former secret, the time until which the secret is accepted.
        listens: whether to serve an operator on the socket beside the store, and to send alarms.
    """
    store, clock, settings, sink = intake.store, intake.clock, intake.settings, intake.sink
    if store.opening().restored:
        sink.ring(_restored(store))
    nursery.start_soon(sink.keep_telling, store, clock, intake.is_over)
    if untils:
        nursery.start_soon(forget_former, intake.secrets, untils, clock)
    if listens and (settings.alarm_url is not None or settings.alarm_chat is not None):
        intake.couriers = _couriers(intake)
        for courier in intake.couriers:
            sink.listen(courier.wake)
            nursery.start_soon(courier.run)
    place = socket_path(settings.store)
    if listens and place is not None:
        await nursery.start(serve_api, intake.api, place)


def _couriers(intake: Intake) -> Sequence[Courier]:
    """Return a courier for each alarm target in the settings.

    Raises:
        ConfigError: an address is invalid.
    """
    from ..alarms.http_target import HttpTarget
    from ..alarms.targets import ChatTarget, Courier, Target

    settings, targets = intake.settings, list[Target]()
    if settings.alarm_url is not None and settings.alarm_secret is not None:
        try:
            targets.append(HttpTarget(settings.alarm_url, settings.alarm_secret))
        except ConfigError as error:
            raise ConfigError(f"{settings.env}{error}") from None
    if settings.alarm_chat is not None:
        targets.append(
            ChatTarget(settings.alarm_chat, lambda: None if intake.work is None else intake.work.outbox)
        )
    hours = settings.alarm_repeat_hours
    return [
        Courier(
            target,
            settings.label,
            intake.store,
            intake.clock,
            unstored=intake.sink.unstored,
            repeat=hours * 3_600_000 if hours else None,
            raise_alarm=intake.sink.ring,
            cover=partial(covered, settings, intake.secrets),
        )
        for target in targets
    ]


async def _log_key(store: Store) -> str:
    """Return the store's key for the digests in log lines; the bot's first start makes the key."""
    if (key := await store.setting(KEY)) is None:
        key = new_key()
        await store.commit(PutSetting(KEY, key))
    return key


def covered(settings: Settings, secrets: Secrets, text: str) -> str:
    """Replace the bot's secrets in a text by ``***``."""
    token = "" if settings.token is None else settings.token.reveal()
    return secrets.covered(text.replace(token, "***") if len(token) >= _TELLS else text)


def _restored(store: Store) -> Alarm:
    had = store.statistics()
    return Alarm(
        "store_restored",
        str(store.opening().epoch),
        f"the store was restored from a backup: {had.conversations} conversations go on from where they"
        f" stood then, and {had.inbox} events are handled that waited or were in hand; what was said and"
        " done since may be said and done again, which `possible_repeat` counts in `triobot status`; what is"
        ' to be said once at most (on_unknown="raise") they don\'t say again, and their code hears of it;'
        " `triobot journal list` shows the conversations",
    )


def _jumped(sink: AlarmSink, by: int) -> None:
    way = "forward" if by > 0 else "back"
    log.warning("the time of day jumped %s by %d seconds", way, abs(by) // 1000)
    text = f"{way} by {abs(by) // 1000} seconds: {text_of('clock_jumped', '')}"
    sink.ring(Alarm("clock_jumped", "clock", text))


def _unreadable(sink: AlarmSink, operation: str, shape: str) -> None:
    text = f"{operation} was answered, and the answer's body is {shape}: {text_of('answer_unreadable', '')}"
    sink.ring(Alarm("answer_unreadable", operation, text))


def _opened_store(
    settings: Settings, clock: WallClock, around: Surroundings | None
) -> AbstractAsyncContextManager[Store]:
    if around is not None:
        return nullcontext(around.store)
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    return open_store(settings.store, stamp=stamp, clock=clock, retention=retention_of(settings))


def retention_of(settings: Settings) -> Retention:
    """Return how long a store with these settings keeps ended and crashed conversations, unreadable requests,
    and keys of calls.
    """
    kept_for, ended = settings.retention_days * DAY, settings.keep_ended * DAY
    most = _MOST_ENDED if settings.development else None
    # Keep keys for at least a day: calls are repeated after a crash.
    keys = max(kept_for, DAY)
    return Retention(crashed=kept_for, raw=kept_for, keys=keys, ended=ended, most_ended=most)


@asynccontextmanager
async def open_work(
    intake: Intake,
    table: Table,
    texts: Speech,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    media_transport: httpx.AsyncBaseTransport | None = None,
    resources: Opened,
    replays: ReplayCheck | None = None,
    backlog_seconds: float | None = None,
    on_failure: OnFailure = tell_nobody,
    instead: Instead | None = None,
    claims: bool = True,
) -> AsyncGenerator[Runtime]:
    """Handle accepted events while the block runs; then stop, within the grace period.

    Args:
        transport, media_transport: for requests and downloads; closed by the caller. None: new transports are
            made.
        backlog_seconds: seconds of waiting after which a backlog raises an alarm; None: never.
        on_failure: called with each error that an author's code leaves unhandled.
        instead: called instead of each step's function; None: steps run normally.
        claims: whether an event may be handled in the transaction that accepts the event. If not, each event
            is first stored, and then passed to the dispatcher's tasks through the dispatcher's channel.
    """
    settings, sink = intake.settings, intake.sink
    client = PlatformClient(
        settings.base_url,
        settings.checked_token,
        transport=transport,
        media_transport=media_transport,
        lent=True,
        allow_insecure=settings.allow_insecure,
        media_hosts=settings.media_hosts,
        # One connection for each concurrent request of the outbox: a slow chat occupies one connection.
        connections=OutboxRules().connections,
        on_unreadable=partial(_unreadable, sink),
        certain=intake.store.held,
    )
    async with (
        _traced(intake) as tracing,
        _advised(settings, table) as notice,
        client as platform,
        open_outbox(
            _held_platform(intake, platform, tracing),
            raise_alarm=sink.ring,
            rules=OutboxRules() if settings.rate is None else OutboxRules(pace=PaceRules(most=settings.rate)),
        ) as outbox,
        open_broadcasts(intake.store, outbox, clock=intake.clock, raise_alarm=sink.ring) as broadcasts,
    ):
        spoken: Outbox = outbox if tracing is None else tracing.trace_outbox(outbox)
        dispatcher: Dispatcher

        async def deliver(captured: Captured, claim: MovePayment) -> bool:
            return await deliver_money(dispatcher.chat_calls, dispatcher.work, captured, claim)

        cashier = Cashier(
            intake.store,
            spoken,
            intake.clock,
            deliver=deliver,
            ring=sink.ring,
            on_alarm=sink.pass_on,
            epoch=intake.store.opening().epoch,
            recall=lambda chat_id: dispatcher.chats.recall(chat_id),
            tracing=None if tracing is None else tracing.asking,
        )
        services = Services(
            outbox=spoken,
            tracing=None if tracing is None else Tracer(tracing.brought, tracing.drive, tracing.stepping),
            store=intake.store,
            clock=intake.clock,
            texts=texts,
            raise_alarm=sink.ring,
            resources=resources,
            notice=notice,
            replays=None if replays is None else replays.watch,
            tracebacks=settings.log_tracebacks,
            keep_ended=settings.keep_ended > 0,
            on_failure=on_failure,
            instead=instead if (held := intake.store.held) is None else held_steps(held, instead),
            charge_hosts=settings.charge_hosts or own_hosts(settings.base_url),
            payments=cashier,
            announcing=broadcasts,
            max_amount=settings.max_amount,
            code=Code(table),
        )
        dispatcher = Dispatcher(services, table, username=settings.username)
        intake.voice.find = partial(_whose, dispatcher.tasks.running)
        work = Runtime(platform, outbox, dispatcher, broadcasts, cashier, intake.store, resources)
        at_rest = False
        try:
            async with trio.open_nursery() as nursery:
                intake.work = work
                if (news := intake.store.news) is not None:
                    from ..operator.orders import carry_out

                    nursery.start_soon(news, dispatcher.inbox.look_in_inbox, partial(carry_out, intake.api))
                else:
                    intake.inbox.deliver = dispatcher.inbox.offer
                    if claims and (door := early_door(dispatcher)) is not None:
                        intake.inbox.early = door.store
                try:
                    # First store the conversations that are still stored only in an event's row: a payment
                    # without a stored conversation loses its button.
                    await dispatcher.write_out()
                    await cashier.start(partial(goes_on, intake.store))
                    # Start the dispatcher before the cashier: a verified payment needs a dispatcher that can
                    # revive its conversation.
                    await nursery.start(dispatcher.run)
                    await nursery.start(cashier.run)
                    if backlog_seconds is not None:
                        nursery.start_soon(_watch_backlog, intake, work, backlog_seconds)
                    yield work
                    broadcasts.rest()
                    with trio.move_on_after(settings.grace):
                        await _or_stuck(
                            dispatcher.drain, lambda: dispatcher.tasks.waits_for_platform and outbox.stuck
                        )
                        await broadcasts.drain()
                        at_rest = await _or_stuck(outbox.drain, lambda: outbox.stuck)
                finally:
                    intake.work = intake.late = intake.voice.find = None
                    intake.inbox.deliver = intake.inbox.early = None
                    nursery.cancel_scope.cancel()
        finally:
            # Cut the outbox only after the conversations are cancelled: a conversation must get a
            # cancellation, not a failed send. Unfinished sends are repeated after the next start, so don't
            # wait for them.
            if not at_rest:
                outbox.cut()


def early_door(dispatcher: Dispatcher) -> EarlyDoor | None:
    """Return an early door for a dispatcher; None if the optional module is missing."""
    try:
        from ..conversations.early import EarlyDoor
    except ModuleNotFoundError as error:
        if error.name != "triobot.conversations.early":
            raise
        return None
    return EarlyDoor(dispatcher.shared, dispatcher.inbox, dispatcher.chats)


@asynccontextmanager
async def _advised(settings: Settings, table: Table) -> AsyncGenerator[Notify | None]:
    """In development, log warnings for developers while the block runs. In production, don't import the
    module with these warnings.
    """
    if not settings.development:
        yield None
        return
    with import_module("triobot.studio.advice").advising(table) as notice:
        yield notice


@asynccontextmanager
async def _traced(intake: Intake) -> AsyncGenerator[Tracing | None]:
    """Make spans while the block runs, if the settings ask for traces.

    Raises:
        ConfigError: OpenTelemetry isn't installed.
    """
    if (share := intake.settings.trace_share) is None:
        yield None
        return
    with needing("otel", "a bot with traces"):
        from .tracing import Tracing
    tracing = Tracing(intake.voice, share)
    with tracing.tracing_inbox(intake.inbox, intake.store):
        yield tracing


def _held_platform(intake: Intake, platform: Platform, tracing: Tracing | None) -> Platform:
    """Wrap the platform for the outbox: with traces, and with checks of the store's lease."""
    seen = platform if tracing is None else tracing.trace_platform(platform)
    held = intake.store.held
    return seen if held is None else HeldPlatform(seen, held)


def _whose(running: Container[object], task: trio.lowlevel.Task) -> Whose | None:
    """Return the conversation of this bot that the task, or a parent of the task, belongs to."""
    found = whose(task)
    if found is None or found[0] not in running:
        return None
    conversation, operation = found
    return Whose(
        conversation.facts.seq,
        conversation.facts.route.name,
        operation,
        conversation.facts.chat_id,
        conversation.facts.place_name,
    )


async def _has_parked(store: Store, key: str) -> bool:
    """Return whether a conversation of the alarm's route is parked. `key` is the route's name, sometimes
    followed by a further word.
    """
    after = 0
    while rows := await store.parked(after=after, limit=_PAGE):
        after = rows[-1].id
        if any(key == row.route or key.rpartition(" ")[0] == row.route for row in rows):
            return True
    return False


async def _watch_backlog(intake: Intake, work: Runtime, most: float) -> None:
    while True:
        await trio.sleep(most / 4)
        ages = {"sends": work.outbox.oldest, "events": await intake.lag()}
        for what, age in ages.items():
            if age > most and what not in (intake.late or ()):
                text = f"the oldest of the {what} that wait has waited for {age:.0f} s"
                intake.sink.ring(Alarm("backlog", what, f"{text}: {text_of('backlog', '')}"))
        intake.late = frozenset(what for what, age in ages.items() if age > most)


async def _or_stuck(drain: Callable[[], Awaitable[None]], stuck: Callable[[], bool]) -> bool:
    """Wait until `drain` returns. Return False if `stuck()` becomes true first.

    In that case, sends that wait for a retry, or for their turn at a low rate, are sent after the next start.
    """
    drained = False
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            looks = 0
            # Check twice in a row: a record that is being stored at the first check may lead to a send.
            while looks < 2:
                await trio.sleep(_LOOK_SECONDS)
                looks = looks + 1 if stuck() else 0
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await drain()
        drained = True
        nursery.cancel_scope.cancel()
    return drained

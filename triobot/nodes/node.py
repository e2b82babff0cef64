"""The shards of one process, which come and go, behind one listener."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol, final

import attrs

from ..alarm_kinds import Alarm
from ..conversations.doors.far import Far
from ..conversations.services import Announcing
from ..errors import ConfigError, StoreAwayError
from ..logs import KEY, Speaker, new_key, speaking
from ..operator import OperatorApi
from ..outbox import Broadcasts, OutboxStatistics
from ..runtime import (
    Intake,
    Runtime,
    Statistics,
)
from ..seams import Outbox, PutSetting, StoreStatistics, WallClock
from ..settings import Settings
from ..shards import MADE, MEMBER_OF, home_of, read_shards
from ..store import Stamp, is_made, open_store
from ..webhook.answers import Readiness, TrafficCounters
from ..webhook.inbox import Inbox
from ..webhook.kept_secrets import FORMER_SECRET, SECRET, webhook_secrets
from ..webhook.secrets import Secrets
from .announcing import SpreadAnnouncing
from .doors import Doors, FarPlaces, NodeOutbox
from .inbox import NodeInbox
from .owners import Owner
from .peers import Peers

DOOR_KEY: Final = "door_key"
"""The setting with the key that the processes prove to one another."""
_COMMON: Final = (SECRET, FORMER_SECRET, KEY, DOOR_KEY)


async def prepare_shards(settings: Settings, clock: WallClock) -> None:
    """Make the shards of a store, or finish that, and see that they are all there and of one store.

    What is the whole bot's is kept in its home shard; the others get a copy here.

    Raises:
        ConfigError: one of them is missing, or another store's.
        StoreError: one of them can't be opened.
    """
    address = read_shards(settings.store)
    if address.whole.startswith("memory:"):
        return
    shards, stamp = len(address.each), Stamp(settings.base_url, settings.checked_token.reveal())
    open_one = partial(open_store, stamp=stamp, clock=clock, visit=True)
    home = home_of(shards)
    async with open_one(address.each[home]) as store:
        made = await store.setting(MADE)
        name = made or await store.setting(MEMBER_OF) or secrets.token_hex(8)
        await store.commit(PutSetting(MEMBER_OF, name))
        await webhook_secrets(settings.webhook_secret, store, clock.now())
        if await store.setting(KEY) is None:
            await store.commit(PutSetting(KEY, new_key()))
        if await store.setting(DOOR_KEY) is None:
            await store.commit(PutSetting(DOOR_KEY, secrets.token_hex(32)))
        common = {setting: await store.setting(setting) for setting in _COMMON}
    if made is not None and (missing := [_named(one) for one in address.each if not await is_made(one)]):
        raise ConfigError(
            f"these shards of the store {address.whole} are missing: {', '.join(missing)}; bring them back,"
            " from a backup if need be: their chats are nowhere else"
        )
    for shard, one in enumerate(address.each):
        if shard == home:
            continue
        async with open_one(one) as store:
            member = await store.setting(MEMBER_OF)
            if member not in (None, name):
                raise ConfigError(
                    f"{_named(one)} is a shard of another store than {address.whole}'s home,"
                    f" {_named(address.each[home])}; bring back those that belong together"
                )
            # What the home shard has no more is empty: a former secret that is over.
            puts = [PutSetting(setting, text or "") for setting, text in common.items()]
            await store.commit(PutSetting(MEMBER_OF, name), *puts)
    if made is None:
        async with open_one(address.each[home]) as store:
            await store.commit(PutSetting(MADE, name))


def _named(store: str) -> str:
    return f"shard {read_shards(store).shard}"


@final
class Node:
    """The shards that this process has, as listeners and front ends see them; see `triobot.runtime.Front`.

    Args:
        doors: the ways to all shards.
        voice: its log lines.
        secrets: of the bot's webhook.
        peers: the other processes; None: there are none.

    Attributes:
        intakes: of the shards, by number. They may come and go, and so may all that follow.
        owners: what answers for the shards of this process.
        works: what handles their events.
        outboxes: what sends to their chats.
        keeper: brings shards here and gives them up; set by whoever makes the node.
    """

    def __init__(
        self,
        settings: Settings,
        doors: Doors,
        owners: dict[int, Owner],
        voice: Speaker,
        secrets: Secrets,
        peers: Peers | None = None,
    ) -> None:
        self.settings = settings
        self.doors = doors
        self.owners = owners
        self.voice = voice
        self.secrets = secrets
        self.peers = peers
        self.intakes: dict[int, Intake] = {}
        self.works: dict[int, Runtime] = {}
        self.outboxes: dict[int, Outbox] = {}
        self.keeper: Keeps | None = None
        self._inboxes: dict[int, Inbox] = {}
        self._traffic: TrafficCounters | None = None
        self.inbox = NodeInbox(doors, self._inboxes, peers)

    def add(self, shard: int, intake: Intake, owner: Owner) -> None:
        """Take the events of a shard from now on."""
        # What metrics call it: they are of one shard each.
        intake.api.name = f"{self.settings.label}-{shard}"
        self.intakes[shard] = intake
        self.owners[shard] = owner
        self._inboxes[shard] = intake.inbox
        self._tell_traffic()

    def remove(self, shard: int) -> None:
        """Take none any more."""
        del self.intakes[shard], self.owners[shard], self._inboxes[shard]
        self._tell_traffic()

    @property
    def traffic(self) -> TrafficCounters | None:
        """Return what our own listener refuses."""
        return self._traffic

    @traffic.setter
    def traffic(self, traffic: TrafficCounters | None) -> None:
        self._traffic = traffic
        self._tell_traffic()

    def _tell_traffic(self) -> None:
        """Have one shard tell operators of the listener."""
        for number, intake in enumerate(self.intakes.values()):
            intake.traffic = None if number else self._traffic

    @property
    def apis(self) -> Sequence[OperatorApi]:
        """Return what answers operators, for each shard."""
        return [intake.api for intake in self.intakes.values()]

    def any_work(self) -> Runtime:
        """Return the work of one shard; through its neighbours it reaches all.

        Raises:
            StoreAwayError: there is none now.
        """
        work = self.works.get(self.doors.home) or next(iter(self.works.values()), None)
        if work is None:
            raise StoreAwayError("this process has none of the bot's shards now; ask again")
        return work

    @property
    def has_home(self) -> bool:
        """Return that what is the whole bot's is done where its shard is: the keeper sees to that."""
        return False

    def readiness(self) -> Readiness:
        """Return what ``/readyz`` says."""
        assert self.keeper is not None
        return self.keeper.readiness()

    @asynccontextmanager
    async def open_work_of(
        self, shard: int, rest: Rests, open_it: Callable[..., AbstractAsyncContextManager[Runtime]]
    ) -> AsyncGenerator[Runtime]:
        """Handle the accepted events of a shard of this process while the block runs; then come to rest.

        Args:
            rest: until which no shard's conversations need this one any more.
            open_it: opens the work of an intake.
        """
        intake, owner = self.intakes[shard], self.owners[shard]
        neighbours = ShardNeighbours(self.doors, shard, self.outboxes, self.works, rest, owner)
        try:
            with speaking(intake.voice), intake.clock.telling(self._look_at_clocks):
                async with open_it(intake, neighbours=neighbours) as work:
                    self.works[shard] = work
                    owner.begin(work)
                    yield work
        finally:
            owner.end()
            self.works.pop(shard, None)
            self.outboxes.pop(shard, None)

    def _look_at_clocks(self, by: int) -> None:
        """Have all shards hear of a jump that one has seen: another one may read no clock for a minute."""
        for intake in self.intakes.values():
            intake.clock.now()


class Keeps(Protocol):
    """What brings shards to a process, and gives them up, while that runs."""

    def readiness(self) -> Readiness:
        """Return whether events are taken, wherever their shards are."""
        ...


class Rests(Protocol):
    """Knows when no shard's conversations need another one any more."""

    async def wait(self) -> None:
        """Say that one shard has come to rest, and wait for those that it waits for."""
        ...


@final
@attrs.frozen
class ShardNeighbours:
    """The other shards, as one shard's work meets them; see `triobot.runtime.Neighbours`."""

    _doors: Doors
    _own: int
    _outboxes: dict[int, Outbox]
    _works: Mapping[int, Runtime]
    _rest: Rests
    _owner: Owner

    @property
    def shards(self) -> int:
        """Return how many there are, this one included."""
        return self._doors.shards

    @property
    def far(self) -> Far:
        """Return what reaches their places."""
        return FarPlaces(self._doors, self._own, self._owner.intake.store.held)

    def outbox(self, own: Outbox) -> Outbox:
        """Return what takes messages to chats of any shard."""
        self._outboxes[self._own] = own
        return NodeOutbox(self._doors.shards, own, self._outboxes)

    def announcing(self, broadcasts: Broadcasts, *, outside: bool) -> Announcing:
        """Return the door to broadcasts that have a part in each shard."""
        return SpreadAnnouncing(self._doors, broadcasts, outside)

    def statistics(self) -> Statistics:
        """Count what all shards of this process have done, and what they hold."""
        each = [work.own_statistics() for work in self._works.values()]
        return Statistics(
            live=sum(one.live for one in each),
            counts=_sum_of([one.counts for one in each]),
            store=StoreStatistics(**_sum_of([attrs.asdict(one.store) for one in each])),
            outbox=_outbox_of([one.outbox for one in each]),
            payments=_sum_of([one.payments for one in each]),
        )

    def raise_alarm(self, alarm: Alarm) -> None:
        """Raise an alarm of the whole bot at its home shard, wherever that is."""
        if self._own == self._doors.home:
            self._owner.intake.bell.ring(alarm)
        else:
            self._owner.pass_on(alarm, partial(self._doors.ask, self._doors.home))

    async def wait_at_rest(self) -> None:
        """Wait until no shard's conversations need this one any more."""
        await self._rest.wait()


def _sum_of(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for one in counts:
        total.update(one)
    return dict(total)


def _outbox_of(each: Sequence[OutboxStatistics]) -> OutboxStatistics:
    """Return where the outboxes stand together: held if one is, as fast as all may be."""
    rates = [one.rate for one in each]
    told = [{name: int(value or 0) for name, value in attrs.asdict(one).items()} for one in each]
    fields: dict[str, Any] = {name: sum(one[name] for one in told) for name in told[0]}
    fields |= {name: bool(fields[name]) for name in ("held", "token_refused")}
    known = [rate for rate in rates if rate is not None]
    fields["rate"] = sum(known) if len(known) == len(rates) else None
    return OutboxStatistics(**fields)

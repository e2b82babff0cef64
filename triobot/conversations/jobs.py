"""Jobs by the clock: when each is due next, and the one task that begins their runs.

A run is a conversation of the bot's own room, begun by a row of the inbox, as by code. That row, and when the
job is due next, are one transaction: so a due time begins one run at most, whatever dies. A job whose former
run still lives begins no other; the due times that pass meanwhile are treated as those of a bot that didn't
run. What is known of all jobs is one setting of the store.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..base.frozen import guarded
from ..errors import ConflictError, NotFoundError, StoreFullError
from ..seams.rooms import SHARED
from ..seams.values import reading
from ..seams.writes import PutSetting
from ..store import Store
from .doors.calls import Call, Place, call_arrival
from .doors.elsewhere import RETRY_STORE, Elsewhere, is_under_way, put_in
from .routes.declarations import Route
from .routes.schedules import LATE, NEWEST, Missed, Tick, Timetable, passed
from .services import Services

log: Final = logging.getLogger("triobot.conversations")

SETTING: Final = "jobs"
"""The setting of a store that says what is known of jobs, as JSON by name."""
_BREATH: Final = 256


@final
@guarded
class KnownJob:
    """What is known of a job; times in wall milliseconds.

    Attributes:
        spec: its schedule when `next` was reckoned.
        words: the same for people.
        next: when it is due next.
        missed: due times that were left out since the last run.
        route: its route's name now.
        due: of the last run; None if there was none.
        begun: when that began.
        gone: the bot declares it no more.
    """

    spec: str
    words: str
    next: int
    route: str = ""
    missed: int = 0
    due: int | None = None
    begun: int | None = None
    gone: bool = False


@reading("what the store keeps of jobs")
def read_known(text: str | None) -> dict[str, KnownJob]:
    """Return what a store knows of jobs, by name."""
    told = cast("Mapping[str, Any]", json.loads(text or "{}"))
    names = [field.name for field in attrs.fields(KnownJob)]
    return {name: KnownJob(**{key: one[key] for key in names if key in one}) for name, one in told.items()}


def put_known(known: Mapping[str, KnownJob]) -> PutSetting:
    """Return the write of what is known."""
    return PutSetting(SETTING, json.dumps({name: attrs.asdict(one) for name, one in known.items()}))


async def lives(store: Store, names: Sequence[str]) -> bool:
    """Return whether a run of a job lives: it has begun and not ended, or waits in the inbox, or is parked.

    Args:
        names: all that its route has or had.
    """
    return await is_under_way(store, SHARED, lambda call: call.name in names, lambda row: row.route in names)


@final
class JobClock:
    """Begins the runs of all jobs at their due times.

    Args:
        wait_written: waits until what was handed to the store before is in it.
    """

    def __init__(
        self,
        services: Services,
        elsewhere: Elsewhere,
        routes: Sequence[Route],
        wait_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._store: Store = services.store
        self._ring: RaiseAlarm = services.raise_alarm
        self._elsewhere = elsewhere
        self._jobs = {route.first_name: (route, job) for route in routes if (job := route.job) is not None}
        self._wait_written = wait_written
        self._known: dict[str, KnownJob] = {}
        self._stirred = trio.Event()
        # An operator's run, and one that is due, must not both find that none lives.
        self._beginning = trio.Lock()
        self._reckoned = trio.Event()

    def look_again(self) -> None:
        """Look at once: a run has ended."""
        self._stirred.set()

    async def wait_known(self) -> Mapping[str, KnownJob]:
        """Wait until it is known what is declared, and return what is known of all jobs, by name."""
        await self._reckoned.wait()
        return self._known

    async def keep_time(self) -> None:
        """Begin runs when they are due, until cancelled.

        Cancellation: *atomic*: a due time has begun its run, with all that is noted of it, or has not.
        """
        await self._reckon()
        self._reckoned.set()
        while self._jobs:
            self._stirred = trio.Event()
            wake = math.inf
            for name in self._jobs:
                async with self._beginning:
                    wake = min(wake, await self._look(name))
            left = (wake - self._services.clock.now()) / 1000
            await self._services.clock.wait(self._stirred, max(left, 0))

    async def _reckon(self) -> None:
        """Find out what is declared: what is new, or has another schedule, is due from now on."""
        now, text = self._services.clock.now(), await self._store.setting(SETTING)
        known = read_known(text)
        for name, (route, job) in self._jobs.items():
            names = (name, *route.names, route.function)
            found = next((known.pop(one) for one in names if one in known), None)
            spec = job.schedule.spec
            if found is None or found.spec != spec or found.gone:
                due = next(job.schedule.after(now))
                last = KnownJob(spec, job.schedule.words, due) if found is None else found
                found = attrs.evolve(
                    last, spec=spec, words=job.schedule.words, next=due, missed=0, gone=False
                )
            self._known[name] = attrs.evolve(found, route=route.name)
        self._known |= {name: attrs.evolve(one, gone=True) for name, one in known.items()}
        if self._known != read_known(text):
            await self._store.commit(put_known(self._known))

    async def _look(self, name: str) -> int:
        """Begin what is due of a job, and return when to look at it again."""
        (route, job), known = self._jobs[name], self._known[name]
        now = self._services.clock.now()
        if known.next > now:
            return known.next
        await self._wait_written()
        if await lives(self._store, (*route.names, route.function)):
            # Its end is told; if an operator ends it, that is seen at its next due time.
            return next(job.schedule.after(now))
        dues: list[int] = []
        for one in passed(job.schedule, known.next, now):
            dues.append(one)
            if not len(dues) % _BREATH:
                await trio.lowlevel.checkpoint()
        *come, following = dues
        known, due = self._choose(name, job, attrs.evolve(known, next=following), come, now)
        if due is None:
            self._known[name] = known
            await self._store.commit(put_known(self._known))
        else:
            tick = Tick(job.schedule.moment(due), known.missed)
            known = attrs.evolve(known, missed=0, due=due, begun=now)
            await self._begin(route, tick, f"{due}", {**self._known, name: known})
            self._known[name] = known
        return known.next

    def _choose(
        self, name: str, job: Timetable, known: KnownJob, come: Sequence[int], now: int
    ) -> tuple[KnownJob, int | None]:
        """Return the due time that begins a run now, if one does, and what is known then."""
        match job.missed:
            case Missed.ONCE:
                return attrs.evolve(known, missed=known.missed + len(come) - 1), come[-1]
            case Missed.SKIP:
                late = now - come[-1] >= LATE
                missed = known.missed + len(come) - (not late)
                return attrs.evolve(known, missed=missed), None if late else come[-1]
            case Missed.ALL:
                left_out = max(0, len(come) - NEWEST)
                if left_out:
                    text = f"of job {name} {left_out} due times were left out; it makes up for {NEWEST}"
                    self._ring(Alarm("jobs_missed", name, text))
                due, *rest = come[left_out:]
                following = rest[0] if rest else known.next
                return attrs.evolve(known, missed=known.missed + left_out, next=following), due

    async def run_now(self, name: str) -> None:
        """Begin a run by hand, whenever it is due; durable when it returns.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: a run of it lives, or the bot declares it no more.
        """
        await self._reckoned.wait()
        async with self._beginning:
            found, known = _declared(self._known, name)
            await self._wait_written()
            route, job = self._jobs[found]
            await _refuse_second(self._store, name, (*route.names, route.function))
            now = self._services.clock.now()
            known = attrs.evolve(known, due=now, begun=now)
            tick = Tick(job.schedule.moment(now))
            await self._begin(route, tick, f"by hand {now}", {**self._known, found: known})
            self._known[found] = known

    async def forget(self, name: str) -> None:
        """Forget what is known of a job that is gone.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: the bot declares it.
        """
        await self._reckoned.wait()
        async with self._beginning:
            found, known = _named(self._known, name)
            if not known.gone:
                raise ConflictError(f"the bot declares job {name}: take it away there first")
            del self._known[found]
            await self._store.commit(put_known(self._known))

    async def _begin(self, route: Route, tick: Tick, once: str, known: Mapping[str, KnownJob]) -> None:
        call = Call(SHARED, route.name, (), tick, None, None, Place.BESIDE)
        while True:
            try:
                return await self._elsewhere.tick(call, once, route.first_name, [put_known(known)])
            except StoreFullError:
                await trio.sleep(RETRY_STORE)


async def run_later(store: Store, now: int, name: str) -> None:
    """Have a run of a job begin with the next start of the bot; durable when it returns.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: a run of it lives, or the bot declares it no more.
        StoreFullError: nothing was stored.
    """
    known = read_known(await store.setting(SETTING))
    found, one = _declared(known, name)
    await _refuse_second(store, name, (found, one.route))
    call = Call(SHARED, one.route, (), Tick(datetime.fromtimestamp(now / 1000, UTC)), place=Place.BESIDE)
    known[found] = attrs.evolve(one, due=now, begun=now)
    await put_in(store, "run", call_arrival(call, f"by hand {now}", now, found), [put_known(known)])


async def forget_stored(store: Store, name: str) -> None:
    """Forget what a store knows of a job; if the bot declares it, it is a new one at the next start.

    Raises:
        NotFoundError: there is no such job.
    """
    known = read_known(await store.setting(SETTING))
    del known[_named(known, name)[0]]
    await store.commit(put_known(known))


def told_of(known: Mapping[str, KnownJob]) -> Sequence[Mapping[str, object]]:
    """Return what is known, for operators, by name."""
    return [{"name": one.route or name, **attrs.asdict(one)} for name, one in sorted(known.items())]


def _named(known: Mapping[str, KnownJob], name: str) -> tuple[str, KnownJob]:
    found = next((key for key, one in known.items() if name in (key, one.route)), None)
    if found is None:
        names = ", ".join(sorted(one.route or key for key, one in known.items())) or "none at all"
        raise NotFoundError(f"there is no job {name}; known are {names}")
    return found, known[found]


def _declared(known: Mapping[str, KnownJob], name: str) -> tuple[str, KnownJob]:
    found, one = _named(known, name)
    if one.gone:
        raise ConflictError(f"the bot declares no job {name} any more")
    return found, one


async def _refuse_second(store: Store, name: str, names: Sequence[str]) -> None:
    if await lives(store, names):
        raise ConflictError(
            f"a run of job {name} has not ended; `triobot journal list` shows where it stands"
        )

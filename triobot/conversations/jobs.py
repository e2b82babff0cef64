"""Jobs: the next due time of each job, and the task that begins the runs of all jobs.

A run is a conversation in the bot's own room. The run is started through the inbox, as with `Chat.start`. The
start's row and the job's next due time are stored in one transaction. So a due time begins at most one run,
even after a crash. While a run lives, its job begins no other run. Due times that pass during the run are
treated like due times that pass while the bot doesn't run. The state of all jobs is stored in one setting of
the store.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..base.frozen import guarded
from ..errors import ConflictError, NotFoundError
from ..seams.rooms import SHARED
from ..seams.values import reading
from ..seams.writes import PutSetting
from ..store import Store
from .calls.chat_calls import is_under_way, put_in
from .calls.signals import Call, Halt, Place, call_arrival
from .routes.schedules import LATE, NEWEST, Missed, Tick, Timetable
from .shared import Shared

log: Final = logging.getLogger("triobot.conversations")

SETTING: Final = "jobs"
"""Name of the store's setting with the state of all jobs, as JSON by job name."""
_YIELD_EVERY: Final = 256


@final
@guarded
class KnownJob:
    """The stored state of a job; times in wall milliseconds.

    Attributes:
        spec: the schedule from which `next` was computed.
        next: the next due time.
        missed: number of due times that were left out since the last run.
        route: current name of the job's route.
        due: due time of the last run; None if there was no run.
        begun: time at which the last run started.
    """

    spec: str
    next: int
    route: str = ""
    missed: int = 0
    due: int | None = None
    begun: int | None = None


@reading("what the store keeps of jobs")
def read_known(text: str | None) -> dict[str, KnownJob]:
    """Decode the stored state of all jobs, by name."""
    stored = cast("Mapping[str, Any]", json.loads(text or "{}"))
    names = [field.name for field in attrs.fields(KnownJob)]
    return {name: KnownJob(**{key: one[key] for key in names if key in one}) for name, one in stored.items()}


def put_known(known: Mapping[str, KnownJob]) -> PutSetting:
    """Return the write that stores the state of all jobs."""
    return PutSetting(SETTING, json.dumps({name: attrs.asdict(one) for name, one in known.items()}))


async def lives(store: Store, names: Sequence[str]) -> bool:
    """Return whether a job has a run that waits in the inbox for its start, that runs, or that is parked.

    Args:
        names: all current and former names of the job's route.
    """
    job = names[0]
    return await is_under_way(store, Halt(SHARED, job), lambda name: job if name in names else name)


@final
class JobClock:
    """Begins the runs of all jobs at their due times.

    Attributes:
        reckoned: set once the declared jobs are registered.
    """

    def __init__(self, shared: Shared) -> None:
        services, routes = shared.services, shared.table.jobs
        self._services = services
        self._store: Store = services.store
        self._ring: RaiseAlarm = services.raise_alarm
        self._chat_calls = shared.chat_calls
        self._jobs = {route.first_name: (route, job) for route in routes if (job := route.job) is not None}
        self._commits = shared.commits
        self._known: dict[str, KnownJob] = {}
        self._stirred = trio.Event()
        # Locked from the check for a live run until the start, so that an operator's start and a start at a
        # due time can't both pass the check.
        self._beginning = trio.Lock()
        self.reckoned = trio.Event()

    def look_again(self) -> None:
        """Check the jobs at once: a run has ended."""
        self._stirred.set()

    async def keep_time(self) -> None:
        """Begin runs at their due times, until cancelled.

        Cancellation: *atomic*: either the run has begun and the job's state is stored, or neither has
        happened.
        """
        await self._reckon()
        self.reckoned.set()
        while self._jobs:
            self._stirred = trio.Event()
            wake = math.inf
            for name in self._jobs:
                async with self._beginning:
                    wake = min(wake, await self._look(name))
            left = (wake - self._services.clock.now()) / 1000
            await self._services.clock.wait(self._stirred, max(left, 0))

    async def _reckon(self) -> None:
        """Register the declared jobs, and forget all others.

        The next due time of a new or rescheduled job is counted from now.
        """
        now, text = self._services.clock.now(), await self._store.setting(SETTING)
        known = read_known(text)
        for name, (route, job) in self._jobs.items():
            names = (name, *route.names, route.function)
            found = next((known[one] for one in names if one in known), None)
            spec = job.schedule.spec
            if found is None or found.spec != spec:
                due = next(job.schedule.after(now))
                last = KnownJob(spec, due) if found is None else found
                found = attrs.evolve(last, spec=spec, next=due, missed=0)
            self._known[name] = attrs.evolve(found, route=route.name)
        if self._known != known:
            await self._store.commit(put_known(self._known))

    async def _look(self, name: str) -> int:
        """Begin a run of the job if it is due. Return when to check the job again."""
        (route, job), known = self._jobs[name], self._known[name]
        now = self._services.clock.now()
        if known.next > now:
            return known.next
        await self._commits.wait_written()
        if await lives(self._store, (*route.names, route.function)):
            # The run's end calls `look_again`. A run that an operator ended is noticed at the next due time.
            return next(job.schedule.after(now))
        come, later = [known.next], job.schedule.after(known.next)
        while (following := next(later)) <= now:
            come.append(following)
            if not len(come) % _YIELD_EVERY:
                await trio.lowlevel.checkpoint()
        known, due = self._choose(name, job, attrs.evolve(known, next=following), come, now)
        if due is None:
            self._known[name] = known
            await self._store.commit(put_known(self._known))
        else:
            tick = Tick(job.schedule.moment(due), known.missed)
            known = attrs.evolve(known, missed=0, due=due, begun=now)
            await self._begin(name, known, tick, f"{due}")
        return known.next

    def _choose(
        self, name: str, job: Timetable, known: KnownJob, come: Sequence[int], now: int
    ) -> tuple[KnownJob, int | None]:
        """Apply the job's rule for missed times. Return the job's new state, and the due time of the run to
        begin; None for no run.
        """
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
        """Begin a run by hand, independently of due times; durable when this returns.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: a run of the job lives.
        """
        async with self._beginning:
            found, known = _named(self._known, name)
            await self._commits.wait_written()
            route, job = self._jobs[found]
            await _refuse_second(self._store, name, (*route.names, route.function))
            now = self._services.clock.now()
            known = attrs.evolve(known, due=now, begun=now)
            await self._begin(found, known, Tick(job.schedule.moment(now)), f"by hand {now}")

    async def _begin(self, name: str, known: KnownJob, tick: Tick, once: str) -> None:
        """Store the start of a run together with `known`, the job's new state."""
        call = Call(SHARED, self._jobs[name][0].name, (), tick, place=Place.BESIDE)
        await self._chat_calls.begin(call, once, name, [put_known({**self._known, name: known})])
        self._known[name] = known


async def run_later(store: Store, now: int, name: str) -> None:
    """Store the start of a job's run, which begins at the next start of the bot; durable on return.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: a run of the job lives.
        StoreFullError: nothing was stored.
    """
    known = read_known(await store.setting(SETTING))
    found, one = _named(known, name)
    await _refuse_second(store, name, (found, one.route))
    call = Call(SHARED, one.route, (), Tick(datetime.fromtimestamp(now / 1000, UTC)), place=Place.BESIDE)
    known[found] = attrs.evolve(one, due=now, begun=now)
    await put_in(store, "run", call_arrival(call, f"by hand {now}", now, found), [put_known(known)])


def jobs_view(known: Mapping[str, KnownJob]) -> Sequence[Mapping[str, object]]:
    """Return the state of all jobs for operators, sorted by name."""
    return [{"name": one.route or name, **attrs.asdict(one)} for name, one in sorted(known.items())]


def _named(known: Mapping[str, KnownJob], name: str) -> tuple[str, KnownJob]:
    found = next((key for key, one in known.items() if name in (key, one.route)), None)
    if found is None:
        names = ", ".join(sorted(one.route or key for key, one in known.items())) or "none at all"
        raise NotFoundError(f"there is no job {name}; known are {names}")
    return found, known[found]


async def _refuse_second(store: Store, name: str, names: Sequence[str]) -> None:
    if await lives(store, names):
        raise ConflictError(
            f"a run of job {name} has not ended; `triobot journal list` shows where it stands"
        )

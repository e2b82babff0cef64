"""When jobs are due: cron expressions in a zone, and intervals; and what becomes of due times that passed.

Pure: what the time is comes in. Due times are wall milliseconds, and each follows from the one before it, so
a clock that is set back makes none of them come twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias, final

from ...base.frozen import guarded
from ...errors import ConfigError, UnrecordableError
from ...seams.values import encode_value, register

if TYPE_CHECKING:
    from cronsim import CronSim

SHORTEST: Final = timedelta(seconds=10)
"""Of intervals: what is to happen more often is a loop in `Bot.background`."""
NEWEST: Final = 1_000
"""With ``missed="all"``: so many due times that passed are made up for."""
LATE: Final = 60_000
"""With ``missed="skip"``: milliseconds after a due time within which its run still begins."""
_FIELDS: Final = 5


@final
@guarded
class Tick:
    """What starts a run of a job.

    Attributes:
        due: when it was due, in the zone of its schedule; of an interval in UTC.
        missed: how many due times were left out between the run before and this one.
    """

    due: datetime
    missed: int = 0


register(Tick, name="triobot.Tick")


class Missed(Enum):
    """What becomes of due times at which no run could begin: no bot ran, or the former run still did."""

    ONCE = "once"
    """One run for all of them."""

    ALL = "all"
    """One each, in their order."""

    SKIP = "skip"
    """None."""


@final
@guarded
class Cron:
    """A cron expression of five fields in a zone."""

    expression: str
    zone: tzinfo

    @property
    def spec(self) -> str:
        """Return what tells it from another schedule."""
        return f"{' '.join(self.expression.split())} {self.zone}"

    @property
    def words(self) -> str:
        """Return the schedule for people."""
        return f"{self._from(0).explain()}, {self.zone}"

    def moment(self, due: int) -> datetime:
        """Return a due time in the schedule's own zone."""
        return datetime.fromtimestamp(due / 1000, self.zone)

    def after(self, at: int) -> Iterator[int]:
        """Yield the due times later than this, for ever."""
        last = at
        for moment in self._from(at):
            due = round(moment.timestamp() * 1000)
            # In an hour that comes twice the library begins with its first pass.
            if due > last:
                last = due
                yield due

    def _from(self, at: int) -> CronSim:
        from cronsim import CronSim

        return CronSim(self.expression, self.moment(at))


@final
@guarded
class Interval:
    """Whole multiples of a length of time, counted from the beginning of 1970 in UTC."""

    length: timedelta

    @property
    def spec(self) -> str:
        """Return what tells it from another schedule."""
        return f"every {self.length.total_seconds():g} s"

    @property
    def words(self) -> str:
        """Return the schedule for people."""
        return f"Every {self.length}"

    def moment(self, due: int) -> datetime:
        """Return a due time in UTC."""
        return datetime.fromtimestamp(due / 1000, UTC)

    def after(self, at: int) -> Iterator[int]:
        """Yield the due times later than this, for ever."""
        length = self.length // timedelta(milliseconds=1)
        due = at // length * length
        while True:
            due += length
            yield due


Schedule: TypeAlias = Cron | Interval


@final
@guarded
class Timetable:
    """What the clock says of a route: when it is due, and what becomes of due times that passed."""

    schedule: Schedule
    missed: Missed


def job_of(when: object, tz: object, missed: object) -> Timetable:
    """Return a job by what its declaration says.

    Raises:
        ConfigError: one of these is something else, or nothing is ever due.
    """
    try:
        policy = Missed(missed)
    except ValueError:
        raise ConfigError(
            'missed= is "once", "all" or "skip": what becomes of due times at which no run could begin'
        ) from None
    if isinstance(when, timedelta):
        if tz is not None:
            raise ConfigError("tz= is for cron expressions: an interval is the same length in every zone")
        if when < SHORTEST or when % timedelta(milliseconds=1):
            raise ConfigError(
                f"every() takes an interval of {SHORTEST.seconds} seconds at least, in whole milliseconds; "
                "what happens more often is a loop in @bot.background"
            )
        return Timetable(Interval(when), policy)
    if not isinstance(when, str):
        raise ConfigError(
            'every() takes a cron expression, as in every("0 9 * * SAT", tz=...), or a timedelta'
        )
    return Timetable(_cron(when, tz), policy)


def _cron(expression: str, tz: object) -> Cron:
    from cronsim import CronSimError

    if not isinstance(tz, tzinfo):
        raise ConfigError(
            f'every({expression!r}) needs its zone, as in tz=ZoneInfo("Asia/Tehran"): nine o\'clock is '
            "another moment in each"
        )
    if len(expression.split()) != _FIELDS:
        raise ConfigError(
            f"every({expression!r}): a cron expression has five fields: minute, hour, day of the month, "
            "month, day of the week"
        )
    cron = Cron(expression, tz)
    try:
        next(cron.after(0))
        encode_value(Tick(cron.moment(0)))
    except UnrecordableError:
        raise ConfigError(f"every({expression!r}): tz= is UTC, or a ZoneInfo: a run remembers it") from None
    except (CronSimError, StopIteration) as error:
        raise ConfigError(f"every({expression!r}) is never due, or no cron expression: {error}") from None
    return cron


def passed(schedule: Schedule, first: int, now: int) -> Iterator[int]:
    """Yield the due times from the first on that have come by now, and then the next one."""
    yield first
    if first > now:
        return
    for due in schedule.after(first):
        yield due
        if due > now:
            return

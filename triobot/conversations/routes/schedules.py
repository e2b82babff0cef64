"""Due times of jobs, by cron expressions in a zone or by intervals, and the policy for missed due times.

Pure: callers pass the time. Due times are wall milliseconds. Each due time is computed from the previous one,
so a clock that is set back repeats no run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from typing import Final, TypeAlias, final

from ...base.frozen import guarded
from ...errors import ConfigError, UnrecordableError
from ...seams.values import encode_value, register

SHORTEST: Final = timedelta(seconds=10)
"""Shortest interval. For shorter intervals, use a loop in `Bot.background`."""
NEWEST: Final = 1_000
"""With ``missed="all"``: number of the newest missed due times that get a run."""
LATE: Final = 60_000
"""With ``missed="skip"``: milliseconds after a due time during which its run may still start."""
_FIELDS: Final = 5


@final
@guarded
class Tick:
    """Event that starts a run of a job.

    Attributes:
        due: due time, in the zone of the schedule; in UTC for an interval.
        missed: number of due times without a run since the previous run.
    """

    due: datetime
    missed: int = 0


register(Tick, name="triobot.Tick")


class Missed(Enum):
    """Policy for due times at which no run could start: no bot ran, or the former run still ran."""

    ONCE = "once"
    """One run for all missed due times."""

    ALL = "all"
    """One run for each missed due time, in order."""

    SKIP = "skip"
    """No run for due times that were missed by more than `LATE`."""


@final
@guarded
class Cron:
    """Cron expression of five fields in a zone."""

    expression: str
    zone: tzinfo

    @property
    def spec(self) -> str:
        """Text that identifies the schedule."""
        return f"{' '.join(self.expression.split())} {self.zone}"

    def moment(self, due: int) -> datetime:
        return datetime.fromtimestamp(due / 1000, self.zone)

    def after(self, at: int) -> Iterator[int]:
        """Yield all due times after `at`, without end."""
        last = at
        from cronsim import CronSim

        for moment in CronSim(self.expression, self.moment(at)):
            due = round(moment.timestamp() * 1000)
            # In an hour that occurs twice, the library begins with the first occurrence.
            if due > last:
                last = due
                yield due


@final
@guarded
class Interval:
    """Schedule of whole multiples of an interval, counted from the beginning of 1970 in UTC."""

    length: timedelta

    @property
    def spec(self) -> str:
        """Text that identifies the schedule."""
        return f"every {self.length.total_seconds():g} s"

    def moment(self, due: int) -> datetime:
        return datetime.fromtimestamp(due / 1000, UTC)

    def after(self, at: int) -> Iterator[int]:
        """Yield all due times after `at`, without end."""
        length = self.length // timedelta(milliseconds=1)
        due = at // length * length
        while True:
            due += length
            yield due


Schedule: TypeAlias = Cron | Interval


@final
@guarded
class Timetable:
    """A job's schedule, and its policy for missed due times."""

    schedule: Schedule
    missed: Missed


def job_of(when: object, tz: object, missed: object) -> Timetable:
    """Return the timetable for the arguments of `Router.every`.

    Raises:
        ConfigError: an argument is invalid, or the expression is never due.
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

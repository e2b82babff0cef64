"""Widgets that ask for a day, or for a day and a time, in the person's calendar system.

A calendar system only determines how a day is written: the result is always a `datetime.date` or `datetime`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from importlib import import_module
from typing import Any, Final, cast, final

from triobot import Buttons, Chat, Sent, recorded
from triobot.base.extras import needing
from triobot.errors import LocalProtocolError

from ..base.frozen import guarded

_DAY: Final = timedelta(days=1)


@final
@guarded
class CalendarSystem:
    """Names and numbering of days, months and years.

    Attributes:
        months: the names of the months.
        weekdays: short names of the days of the week, from Monday.
        first_weekday: first day of the week; 0 is Monday.
        numbers: returns a day's year, month and day of the month.
        starts: returns the first day of a month, given the year and the month's number; 1 is the first month.
        digits: the ten digits, from 0 to 9.

    Examples:
        >>> german = attrs.evolve(GREGORIAN, weekdays=("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"))
    """

    months: Sequence[str]
    weekdays: Sequence[str]
    first_weekday: int
    numbers: Callable[[date], tuple[int, int, int]]
    starts: Callable[[int, int], date]
    digits: str = "0123456789"

    def write(self, text: str) -> str:
        """Return `text` with its digits replaced by this system's digits."""
        return text.translate(str.maketrans("0123456789", self.digits))

    def month_after(self, year: int, month: int, by: int) -> tuple[int, int]:
        """Return the year and the number of the month that is `by` months after the given month."""
        count = len(self.months)
        return year + (month - 1 + by) // count, (month - 1 + by) % count + 1


def _jalali() -> Any:
    # Imported dynamically: type checkers would report a missing module without the extra.
    with needing("jalali", "the Jalali calendar"):
        return import_module("persiantools.jdatetime").JalaliDate


def _jalali_numbers(day: date) -> tuple[int, int, int]:
    found = _jalali()(day)
    return found.year, found.month, found.day


def _jalali_starts(year: int, month: int) -> date:
    first: date = _jalali()(year, month, 1).to_gregorian()
    return first


GREGORIAN: Final = CalendarSystem(
    months=(
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    weekdays=("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"),
    first_weekday=0,
    numbers=lambda day: (day.year, day.month, day.day),
    starts=lambda year, month: date(year, month, 1),
)
JALALI: Final = CalendarSystem(
    months=(
        *("فروردین", "اردیبهشت", "خرداد", "تیر", "مرداد", "شهریور"),
        *("مهر", "آبان", "آذر", "دی", "بهمن", "اسفند"),
    ),
    weekdays=("د", "س", "چ", "پ", "ج", "ش", "ی"),
    first_weekday=5,
    numbers=_jalali_numbers,
    starts=_jalali_starts,
    digits="۰۱۲۳۴۵۶۷۸۹",
)
"""The calendar of Iran; needs the extra ``jalali``."""


@final
@recorded(name="triobot.widgets.month")
@guarded
class OtherMonth:
    """Key of a button that shows the month `by` months later. With 0, the button leads back to the days."""

    by: int


@final
@recorded(name="triobot.widgets.no-day")
@guarded
class NoDay:
    """Key of a button that does nothing: a heading, or a day that isn't offered."""

    place: int


def _any_day(day: date) -> bool:
    return True


async def calendar(
    chat: Chat,
    question: str,
    *,
    first: date,
    last: date,
    free: Callable[[date], bool] = _any_day,
    system: CalendarSystem = GREGORIAN,
    into: Sent | None = None,
    by: int | None = None,
) -> date:
    """Ask for a day, one month at a time, beginning with the month of the first free day.

    Args:
        first, last: the first and the last day offered; today is ``chat.now(zone).date()``.
        free: returns whether a day is offered. The result must be the same after a restart, so `free` may
            only depend on recorded values, such as a step's result or a key's value.
        system: how days are written: `GREGORIAN`, `JALALI`, or your own.
        into, by: as for `Chat.choose`.

    Raises:
        LocalProtocolError: no day is free; the calling program must check this before the call.
        ConfigError: `system` is `JALALI`, and the extra ``jalali`` isn't installed.

    Examples:
        >>> async def book(chat: Chat) -> None:
        ...     today = chat.now(TEHRAN).date()
        ...     day = await calendar(chat, "Which day?", first=today, last=today + timedelta(days=60))
        ...     await chat.send(f"{day:%d %B}, then.")
    """
    months = _Months(first, last, free, system)
    with chat.board(into=into, by=by) as board:
        while True:
            match await board.choose(question, months.shown()):
                case OtherMonth(by=count):
                    months.turn(count)
                case NoDay():
                    pass
                case day:
                    return day


@final
class _Months:
    """The months that contain the days from `first` to `last`, and the month that is shown."""

    def __init__(self, first: date, last: date, free: Callable[[date], bool], system: CalendarSystem) -> None:
        self._first, self._last, self._free, self._system = first, last, free, system
        begin = first
        while begin <= last and not free(begin):
            begin += _DAY
        if begin > last:
            raise LocalProtocolError("free", "takes no day from `first` to `last`")
        self._year, self._month, _ = system.numbers(begin)

    def turn(self, by: int) -> None:
        """Show the month `by` months later; ignore a tap beyond the first or the last month."""
        start, after = self._span(by)
        if start <= self._last and self._first < after:
            self._year, self._month = self._system.month_after(self._year, self._month, by)

    def shown(self) -> Buttons[date | OtherMonth | NoDay]:
        system, (start, after) = self._system, self._span()
        turns: dict[OtherMonth | NoDay, str] = {OtherMonth(-1): "«"} if self._first < start else {}
        turns[NoDay(-1)] = system.write(f"{system.months[self._month - 1]} {self._year}")
        if after <= self._last:
            turns[OtherMonth(1)] = "»"
        had = [day for day in _days(start, after) if self._first <= day <= self._last and self._free(day)]
        return Buttons(turns, columns=3) + _weeks(system, start, after, had)

    def _span(self, by: int = 0) -> tuple[date, date]:
        """Return the first day of the month `by` months after the shown month, and of the next month."""
        system = self._system
        year, month = system.month_after(self._year, self._month, by)
        return system.starts(year, month), system.starts(*system.month_after(year, month, 1))


def _days(start: date, after: date) -> Sequence[date]:
    return [start + number * _DAY for number in range((after - start).days)]


def _weeks(system: CalendarSystem, start: date, after: date, had: Collection[date]) -> Buttons[date | NoDay]:
    """Return a month's rows: the weekdays' names, then the month's days; only days in `had` are offered."""
    week, first = len(system.weekdays), system.first_weekday
    cells: dict[date | NoDay, str] = {
        NoDay(number): system.weekdays[(first + number) % week] for number in range(week)
    }
    begin, end = start, after
    while (begin.weekday() - first) % week:
        begin -= _DAY
    while (end.weekday() - first) % week:
        end += _DAY
    for number, day in enumerate(_days(begin, end), week):
        if day in had:
            cells[day] = system.write(str(system.numbers(day)[2]))
        else:
            cells[NoDay(number)] = "·"
    return Buttons(cells, columns=week)


async def date_time(
    chat: Chat,
    question: str,
    times: Callable[[date], Sequence[time]],
    *,
    first: date,
    last: date,
    tz: tzinfo,
    system: CalendarSystem = GREGORIAN,
    columns: int = 4,
    back: str = "«",
    into: Sent | None = None,
    by: int | None = None,
) -> datetime:
    """Ask for a day, then for one of its times; a button leads back to the days.

    Args:
        times: returns the times offered on a day; a day without times isn't offered. Like `free` of
            `calendar`, `times` must return the same after a restart.
        first, last: as for `calendar`.
        tz: time zone of the times. A time that doesn't exist on a day, because clocks are set forward, isn't
            offered; a time that occurs twice means its first occurrence.
        columns: number of buttons in one row of times.
        back: label of the button that leads back to the days.
        system, into, by: as for `calendar`.

    Raises: as `calendar`.

    Examples:
        >>> async def book(chat: Chat) -> None:
        ...     today = chat.now(TEHRAN).date()
        ...     when = await date_time(
        ...         chat, "When?", lambda day: [time(9), time(17)], first=today, last=today, tz=TEHRAN
        ...     )
        ...     await chat.send(f"{when:%A at %H:%M}, then.")
    """

    def offered(day: date) -> Sequence[datetime]:
        # A time that doesn't exist on the day becomes a different time when converted to UTC and back.
        instants = [datetime.combine(day, one, tzinfo=tz) for one in times(day)]
        return [one for one in instants if one.astimezone(UTC).astimezone(tz).time() == one.time()]

    def begin() -> _Months:
        return _Months(first, last, lambda day: bool(offered(day)), system)

    months, day = begin(), cast("date | None", None)
    with chat.board(into=into, by=by) as board:
        while True:
            rows: Buttons[date | OtherMonth | NoDay] = months.shown()
            if day is not None:
                labels = {one.astimezone(UTC): system.write(f"{one:%H:%M}") for one in offered(day)}
                rows = Buttons(labels, columns) + Buttons({OtherMonth(0): back})
            match await board.choose(question, rows):
                case datetime() as picked:
                    return picked.astimezone(tz)
                case OtherMonth(by=0):
                    months, day = begin(), None
                case OtherMonth(by=count):
                    months.turn(count)
                    day = None
                case NoDay():
                    pass
                case day:
                    pass

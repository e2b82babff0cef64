"""Alarms: what an operator should know, said once an hour a thing, in the log and to the author's hook.

Each is a row of the store, so that it outlives the process that raised it: the hook is called at least once,
and again every hour, until an operator has acknowledged it.
"""

from __future__ import annotations

import logging
import shlex
import traceback
from collections import deque
from typing import Final, final

import trio

from .errors import StoreError
from .money import AlarmRow, AlarmTold
from .money import RaiseAlarm as KeepAlarm
from .seams import Alarm, OnAlarm, RaiseAlarm, Store, WallClock

log: Final = logging.getLogger("triobot.alarms")

_WAITING: Final = 64
_QUIET_SECONDS: Final = 3600.0
_HOUR: Final = 3_600_000
_PAGE: Final = 100
_LOOK: Final = 300.0
_AGAIN: Final = 60.0
_REMEMBERED: Final = 10_000
_RECENT: Final = 100


@final
class AlarmBell:
    """Takes alarms from anywhere, without waiting, and passes each kind and key on once an hour at most.

    What goes wrong again next week is news; ten thousand forged callbacks are one. When more than 64 wait to
    be stored, further ones are only logged.

    Args:
        hook: the author's.
        at_once: told before that, without waiting; must not raise.
    """

    def __init__(self, hook: OnAlarm | None, at_once: RaiseAlarm | None = None) -> None:
        self._hook = hook
        self._at_once = at_once
        self._rung: dict[tuple[str, str], float] = {}
        self._recent: dict[tuple[str, str], tuple[Alarm, int, float]] = {}
        self._queue: deque[Alarm] = deque()
        self._news = trio.Event()
        self._at_rest = False

    def ring(self, alarm: Alarm) -> None:
        """Raise an alarm; never waits, never raises."""
        if not self.noted(alarm):
            return
        if len(self._queue) < _WAITING:
            self._queue.append(alarm)
        else:
            log.warning("the store is behind: this alarm is in the log only")

    def noted(self, alarm: Alarm) -> bool:
        """Pass on an alarm whose row is stored already; False if that was done within the hour."""
        now = trio.current_time()
        what = (alarm.kind, alarm.key)
        self._remember(alarm, now)
        if what in self._rung and now < self._rung[what] + _QUIET_SECONDS:
            if self._at_rest:
                self._news.set()  # nothing was open: somebody has acknowledged it, and it is news again
            return False
        self._rung.pop(what, None)
        if len(self._rung) >= _REMEMBERED:
            del self._rung[next(iter(self._rung))]
        self._rung[what] = now
        log.error("ALARM %s: %s", alarm.kind, alarm.text)
        if self._at_once is not None:
            self._at_once(alarm)
        self._news.set()
        return True

    def recent(self) -> list[tuple[Alarm, int, float]]:
        """Return the last hundred alarms of this run, with how often and how many seconds ago."""
        now = trio.current_time()
        return [(alarm, times, now - last) for alarm, times, last in self._recent.values()]

    def _remember(self, alarm: Alarm, now: float) -> None:
        _, times, _ = self._recent.pop((alarm.kind, alarm.key), (alarm, 0, now))
        if len(self._recent) >= _RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[alarm.kind, alarm.key] = (alarm, times + 1, now)

    async def keep_telling(self, store: Store, clock: WallClock) -> None:
        """Store alarms and call the hook, one alarm at a time, until cancelled; its errors are logged."""
        while True:
            self._news, self._at_rest = trio.Event(), False
            try:
                await self._store_them(store, clock)
                pause = await self._tell(store, clock)
            except StoreError as error:
                log.error("alarms can't be stored: %s", type(error).__name__)  # noqa: TRY400
                pause = _AGAIN
            with trio.move_on_after(pause):
                await self._news.wait()

    async def _store_them(self, store: Store, clock: WallClock) -> None:
        while self._queue:
            alarm = self._queue[0]
            try:
                await store.commit(KeepAlarm(alarm.kind, alarm.key, alarm.text, clock.now()))
            except StoreError:
                # What is wrong may be the store itself: then the hook hears of it without a row.
                self._queue.popleft()
                await self._call(alarm)
                raise
            self._queue.popleft()

    async def _tell(self, store: Store, clock: WallClock) -> float:
        """Tell what is open and has not been told for an hour; returns how long to wait."""
        pause = _LOOK
        for row in await store.alarms.open(told_before=clock.now() - _HOUR, limit=_PAGE):
            if row.told is not None:
                log.error("ALARM %s, still: %s", row.kind, row.text)
            if await self._call(_alarm_of(row)):
                await store.commit(AlarmTold(row.kind, row.key, clock.now()))
            else:
                pause = _AGAIN
        self._at_rest = not await store.alarms.open(limit=1)
        return float("inf") if self._at_rest else pause

    async def _call(self, alarm: Alarm) -> bool:
        if self._hook is None:
            return True
        try:
            await self._hook(alarm)
        except Exception as error:
            # Not its text: that is the author's, and may hold the password of a mail server.
            log.error("the alarm hook failed: %s", type(error).__name__)  # noqa: TRY400
            log.debug("%s", "".join(traceback.format_tb(error.__traceback__)))
            return False
        return True


def _alarm_of(row: AlarmRow) -> Alarm:
    again = f" (said {row.count} times)" if row.count > 1 else ""
    if row.told is not None:
        seen = f"triobot payments acknowledge --kind {row.kind} --key {shlex.quote(row.key)}"
        again += f" Once you have seen it: `{seen}`"
    return Alarm(row.kind, row.key, f"{row.text}{again}")

"""Store and log alarms, and call the author's hook, at most once an hour for each kind and key.

Each alarm is a row of the store, so the alarm survives the process. The hook is called at least once for each
alarm. The hook is called again every hour until an operator acknowledges the alarm or the alarm's state is
over. For an alarm about an event, which has no duration, the hook is not called again.
"""

from __future__ import annotations

import logging
import math
import shlex
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, final

import trio

from ..base.alarm_kinds import EVENTS, STATES, Alarm, AlarmKind, OnAlarm, RaiseAlarm
from ..base.authors import contained_in_task, kind_of
from ..base.clock import WallClock
from ..errors import StoreError
from ..seams.money import AcknowledgeAlarms, AlarmRow, AlarmTold
from ..seams.money import RaiseAlarm as KeepAlarm
from ..store import Store

log: Final = logging.getLogger("triobot.alarms")

_WAITING: Final = 64
_QUIET_SECONDS: Final = 3600.0
_HOUR: Final = 3_600_000
_PAGE: Final = 100
_MOST_STATES: Final = 1000
_LOOK: Final = 300.0
_AGAIN: Final = 60.0
_HOOK_SECONDS: Final = 60.0
_REMEMBERED: Final = 1_000

IsOver: TypeAlias = Callable[[AlarmKind, str, float], Awaitable[bool]]
"""Returns whether the cause of an alarm with this kind and key is certainly gone.

The number is the time in seconds since the alarm was last raised.
"""


@final
class AlarmSink:
    """Accepts alarms without waiting, and reports the alarms of each kind and key at most once an hour.

    For example, ten thousand forged callbacks within an hour cause one report, and a forged callback a week
    later causes another. If more than 64 alarms wait for the store, further alarms are only logged.

    Args:
        hook: the author's hook.
        at_once: called with each reported alarm before the hook, without waiting; must not raise.
    """

    def __init__(self, hook: OnAlarm | None, at_once: RaiseAlarm | None = None) -> None:
        self._hook = hook
        self._at_once = at_once
        # For each alarm: when it was reported, when it was last raised, and how often.
        self._rung: dict[tuple[AlarmKind, str], tuple[float, float, int]] = {}
        self._queue: deque[Alarm] = deque()
        # Alarms that the store could not save; `Courier` objects send these alarms to the targets too.
        self._unstored: dict[tuple[AlarmKind, str], AlarmRow] = {}
        self._listeners: list[Callable[[], None]] = []
        self._news = trio.Event()
        self._at_rest = False
        self._looked_at, self._look_by = -math.inf, math.inf
        self._pause = trio.CancelScope()

    def ring(self, alarm: Alarm) -> None:
        """Raise an alarm; never waits, never raises."""
        if not self.pass_on(alarm):
            return
        if len(self._queue) < _WAITING:
            self._queue.append(alarm)
        else:
            log.warning("the store is behind: this alarm is in the log only")

    def pass_on(self, alarm: Alarm) -> bool:
        """Report an alarm, but don't store it. Return False if the alarm was reported within the hour."""
        now = trio.current_time()
        what = (alarm.kind, alarm.key)
        reported, _, times = self._rung.pop(what, (-math.inf, now, 0))
        known = now < reported + _QUIET_SECONDS
        if len(self._rung) >= _REMEMBERED:
            del self._rung[next(iter(self._rung))]
        self._rung[what] = reported if known else now, now, times + 1
        if known:
            if self._at_rest:
                # The store has no open alarm, so an operator has acknowledged this alarm. Report it again.
                self._news.set()
            # If alarms are open, check the store soon: an operator may have acknowledged this alarm.
            self._look_by = self._looked_at + _LOOK
            self._pause.deadline = min(self._pause.deadline, self._look_by)
            return False
        log.error("ALARM %s: %s", alarm.kind, alarm.text)
        if self._at_once is not None:
            self._at_once(alarm)
        self._news.set()
        return True

    def unstored(self) -> Sequence[AlarmRow]:
        """Return the alarms that the store could not save, except alarms that are known to be over."""
        return list(self._unstored.values())

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a callback for raised and ended alarms; the callback must not wait or raise."""
        self._listeners.append(listener)

    def has_rung(self, kind: AlarmKind, key: str) -> bool:
        """Return whether this process has raised the alarm, and the alarm has not ended since."""
        return (kind, key) in self._rung

    async def keep_telling(self, store: Store, clock: WallClock, is_over: IsOver | None = None) -> None:
        """Store alarms and call the hook, one alarm at a time, until cancelled. The hook's errors are logged.

        Every five minutes, `is_over` is called for each alarm about a state; without `is_over`, no alarm ends
        by itself. An alarm that was raised in the last five minutes is not checked, so that a state that
        comes and goes causes one alarm. The first check is five minutes after the start, so that the alarms
        of an earlier process can be raised again before the check.
        """
        began = trio.current_time()
        while True:
            self._news, self._at_rest = trio.Event(), False
            self._looked_at = trio.current_time()
            # Other processes that share the store may add alarms.
            self._look_by = math.inf if store.news is None else self._looked_at + _AGAIN
            try:
                try:
                    await self._store_them(store, clock)
                    if is_over is not None and trio.current_time() >= began + _LOOK:
                        await self._end_what_is_over(store, clock, is_over)
                finally:
                    # Call the listeners before the hook, which may be slow.
                    for listener in self._listeners:
                        listener()
                pause = await self._tell(store, clock)
            except StoreError as error:
                log.error("alarms can't be stored: %s", type(error).__name__)  # noqa: TRY400
                pause = _AGAIN
            with trio.move_on_at(min(trio.current_time() + pause, self._look_by)) as self._pause:
                await self._news.wait()

    async def _store_them(self, store: Store, clock: WallClock) -> None:
        while self._queue:
            alarm = self._queue[0]
            try:
                await store.commit(KeepAlarm(alarm.kind, alarm.key, alarm.text, clock.now()))
            except StoreError:
                # The alarm may be about the store itself, so call the hook even without a stored row.
                self._queue.popleft()
                if len(self._unstored) < _WAITING:
                    now = clock.now()
                    row = AlarmRow(alarm.kind, alarm.key, alarm.text, now, now, 1)
                    self._unstored[alarm.kind, alarm.key] = row
                await self._call(alarm)
                raise
            self._queue.popleft()
        for what, row in list(self._unstored.items()):  # the store can write again
            await store.commit(KeepAlarm(row.kind, row.key, row.text, row.last))
            del self._unstored[what]

    async def _end_what_is_over(self, store: Store, clock: WallClock, is_over: IsOver) -> None:
        found = await store.alarms.open(kinds=tuple(STATES), limit=_MOST_STATES)
        rows: dict[tuple[AlarmKind, str], AlarmRow] = {(row.kind, row.key): row for row in found}
        # An alarm has no row here if an operator has acknowledged it, or if the store could not save it.
        lasting = [what for what in self._rung if what[0] in STATES]
        for what in dict.fromkeys((*rows, *lasting)):
            kind, key = what
            rung, row = self._rung.get(what), rows.get(what)
            ages = [] if rung is None else [trio.current_time() - rung[1]]
            if row is not None:
                ages.append(abs(clock.now() - row.last) / 1000)  # the clock may have been set back
            quiet = min(ages, default=0.0)
            if quiet < _LOOK or not await is_over(kind, key, quiet):
                continue
            if self._rung.get(what) != rung:
                continue  # The alarm was raised again during `is_over`.
            # Remove the alarm before the acknowledgement: an alarm that is raised later is then stored anew.
            self._rung.pop(what, None)
            self._unstored.pop(what, None)
            log.warning("the alarm %s (%s) is over", kind, key)
            if row is not None:
                await store.commit(AcknowledgeAlarms((kind,), key, clock.now()))

    async def _tell(self, store: Store, clock: WallClock) -> float:
        """Call the hook for each open alarm that was not passed to the hook in the last hour.

        Return the seconds until the next round.
        """
        failed = False
        for row in await store.alarms.open(told_before=clock.now() - _HOUR, limit=_PAGE):
            if row.told is not None:
                log.error("ALARM %s, still: %s", row.kind, row.text)
            if await self._call(_alarm_of(row)):
                await store.commit(AlarmTold(row.kind, row.key, clock.now()))
            else:
                failed = True
        rows = await store.alarms.open(limit=_PAGE)
        self._at_rest = not rows
        if failed:
            return _AGAIN
        kinds = {*(row.kind for row in rows), *(kind for kind, _ in self._rung)}
        if kinds & STATES or len(rows) == _PAGE:
            return _LOOK
        # No alarm about a state is open, so the next round is needed only when the hook must be called again.
        # Alarms about events are not repeated.
        accepted = [row.told or 0 for row in rows if row.kind not in EVENTS or row.last > (row.told or 0)]
        # The next round is `_LOOK` seconds after the hour is over: alarms that were reported within `_LOOK`
        # seconds of each other are then repeated together.
        return max(min(accepted) + _HOUR - clock.now(), 0) / 1000 + _LOOK if accepted else math.inf

    async def _call(self, alarm: Alarm) -> bool:
        if self._hook is None:
            return True
        limit = trio.move_on_after(_HOOK_SECONDS)
        try:
            with limit:
                await self._hook(alarm)
        except BaseException as raised:
            # Don't log the error's text: the text is the author's, and may contain a mail server's password.
            error = contained_in_task(raised)
            log.error("the alarm hook failed: %s", kind_of(error))  # noqa: TRY400
            log.debug("%s", "".join(traceback.format_tb(error.__traceback__)))
            return False
        if limit.cancelled_caught:
            log.error("the alarm hook was cut after %.0f s", _HOOK_SECONDS)
        return not limit.cancelled_caught


def _alarm_of(row: AlarmRow) -> Alarm:
    again = f" (said {row.count} times)" if row.count > 1 else ""
    if row.told is not None:
        seen = f"triobot alarms acknowledge --kind {row.kind} --key {shlex.quote(row.key)}"
        again += f" Once you have seen it: `{seen}`"
    return Alarm(row.kind, row.key, f"{row.text}{again}")

"""Alarms: what an operator should know, said once an hour a thing, in the log and to the author's hook."""

from __future__ import annotations

import logging
import traceback
from typing import Final, final

import trio

from .seams import Alarm, OnAlarm, RaiseAlarm

log: Final = logging.getLogger("triobot.alarms")

_WAITING: Final = 64
_QUIET_SECONDS: Final = 3600.0
_REMEMBERED: Final = 10_000
_RECENT: Final = 100


@final
class AlarmBell:
    """Takes alarms from anywhere, without waiting, and passes each kind and key on once an hour at most.

    What goes wrong again next week is news; ten thousand forged callbacks are one. When more than 64 wait for
    the hook, further ones are only logged.

    Args:
        hook: the author's.
        at_once: told before that, without waiting; must not raise.
    """

    def __init__(self, hook: OnAlarm | None, at_once: RaiseAlarm | None = None) -> None:
        self._hook = hook
        self._at_once = at_once
        self._rung: dict[tuple[str, str], float] = {}
        self._recent: dict[tuple[str, str], tuple[Alarm, int, float]] = {}
        self._send, self._receive = trio.open_memory_channel[Alarm](_WAITING)

    def ring(self, alarm: Alarm) -> None:
        """Raise an alarm; never waits, never raises."""
        now = trio.current_time()
        what = (alarm.kind, alarm.key)
        self._remember(alarm, now)
        if what in self._rung and now < self._rung[what] + _QUIET_SECONDS:
            return
        self._rung.pop(what, None)
        if len(self._rung) >= _REMEMBERED:
            del self._rung[next(iter(self._rung))]
        self._rung[what] = now
        log.error("ALARM %s: %s", alarm.kind, alarm.text)
        if self._at_once is not None:
            self._at_once(alarm)
        if self._hook is not None:
            try:
                self._send.send_nowait(alarm)
            except trio.WouldBlock:
                log.warning("the alarm hook is behind: this alarm is in the log only")

    def recent(self) -> list[tuple[Alarm, int, float]]:
        """The last hundred alarms of this run: how often each was raised, and how many seconds ago last."""
        now = trio.current_time()
        return [(alarm, times, now - last) for alarm, times, last in self._recent.values()]

    def _remember(self, alarm: Alarm, now: float) -> None:
        _, times, _ = self._recent.pop((alarm.kind, alarm.key), (alarm, 0, now))
        if len(self._recent) >= _RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[alarm.kind, alarm.key] = (alarm, times + 1, now)

    async def keep_telling(self) -> None:
        """Call the hook, one alarm at a time, until cancelled; its errors are logged."""
        async for alarm in self._receive:
            if self._hook is None:
                continue
            try:
                await self._hook(alarm)
            except Exception as error:
                # Not its text: that is the author's, and may hold the password of a mail server.
                log.error("the alarm hook failed: %s", type(error).__name__)  # noqa: TRY400
                log.debug("%s", "".join(traceback.format_tb(error.__traceback__)))

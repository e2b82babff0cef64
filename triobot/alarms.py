"""Alarms: what an operator should know, said once a thing, in the log and to the author's hook."""

from __future__ import annotations

import logging
from typing import Final, final

import trio

from .seams import Alarm, OnAlarm

log: Final = logging.getLogger("triobot.alarms")

_WAITING: Final = 64


@final
class AlarmBell:
    """Takes alarms from anywhere, without waiting, and passes each kind and key on once a run.

    When more than 64 wait for the hook, further ones are only logged.
    """

    def __init__(self, hook: OnAlarm | None) -> None:
        self._hook = hook
        self._rung: set[tuple[str, str]] = set()
        self._send, self._receive = trio.open_memory_channel[Alarm](_WAITING)

    def ring(self, alarm: Alarm) -> None:
        """Raise an alarm; never waits, never raises."""
        if (alarm.kind, alarm.key) in self._rung:
            return
        if len(self._rung) < 10_000:
            self._rung.add((alarm.kind, alarm.key))
        log.error("ALARM %s: %s", alarm.kind, alarm.text)
        if self._hook is not None:
            try:
                self._send.send_nowait(alarm)
            except trio.WouldBlock:
                log.warning("the alarm hook is behind: this alarm is in the log only")

    async def keep_telling(self) -> None:
        """Call the hook, one alarm at a time, until cancelled; its errors are logged."""
        async for alarm in self._receive:
            if self._hook is None:
                continue
            try:
                await self._hook(alarm)
            except Exception:
                log.exception("the alarm hook failed")

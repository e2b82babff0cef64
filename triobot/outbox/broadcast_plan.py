"""The state of one broadcast: the next receivers, and the writes to commit before sending to them. Pure.

A broadcast first stores its next receivers as *meant*, together with the outcomes of earlier requests. Only
then does the broadcast send the message to these receivers. So after a crash, only meant receivers without an
outcome are in doubt, and each receiver gets the message at most once. One commit serves many receivers: a
commit waits until half a window of outcomes has arrived, but not longer than `MOMENT`.

`Window` bounds the number of receivers with a request in flight. The outbox has its own limits for all
requests. The limit of the window bounds the number of receivers in doubt after a crash. The window slows down
further requests in two cases:

- The outcome of a request is unknown. Each message is sent at most once, so no second request reaches this
  receiver. Therefore the broadcast now sends to only one receiver at a time. The pauses between these
  requests double until the platform answers.
- All requests in flight wait for the breaker. Receivers who have left cause the same refusals as a bad token,
  so the breaker waits for a success. One more request a second is sent to find a success.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, final

from ..base.frozen import guarded
from ..seams.broadcasts import (
    AdvanceBroadcast,
    BroadcastJob,
    BroadcastWrite,
    Outcome,
    Receiver,
    TurnBroadcast,
)

NEVER: Final = float("inf")
PAGE: Final = 256
"""Receivers per read from the store."""
MOMENT: Final = 0.05
"""Longest wait in seconds for more outcomes before a commit."""


@final
@guarded
class WindowRules:
    """Limits and delays of a window.

    Attributes:
        width: number of receivers in flight at a time; equal to the lanes' limit for broadcasts. Requests
            beyond the lanes' limit would only be queued, and a crash would leave their receivers in doubt.
        extra: largest number of further receivers in flight while no outcome arrives.
        quiet: seconds without an outcome after which one further receiver is allowed.
        first_pause, longest_pause: bounds in seconds of the pause between two trials after an unknown
            outcome.
    """

    width: int = 16
    extra: int = 64
    quiet: float = 1.0
    first_pause: float = 1.0
    longest_pause: float = 60.0


@final
class Window:
    """The limit for the number of receivers in flight of one broadcast.

    Attributes:
        pace: requests that the outbox may start in a second; None: unlimited. The window allows at most this
            number of receivers in flight, since requests to further receivers would only be queued.
        flying: receivers in flight.
    """

    def __init__(self, rules: WindowRules | None = None) -> None:
        self._rules = rules or WindowRules()
        self.pace: float | None = None
        self._news_at = 0.0
        self._pause = 0.0
        self._go_at = 0.0
        self._trying = False
        self.flying = 0

    @property
    def most(self) -> int:
        """Largest number of receivers in flight."""
        return self._rules.width + self._rules.extra

    def room(self, now: float) -> int:
        """Return the number of further receivers to which requests may be sent now."""
        if self.flying >= self.most or now < self._go_at:
            return 0
        if self._pause:
            return 1
        if self.flying < self._width:
            return self._width - self.flying
        return int(now >= self._news_at + self._quiet)

    def look_again(self, now: float) -> float:
        """Return when the result of `room` can next grow without a new outcome; `NEVER` if only an outcome
        can make it grow.
        """
        if self.flying >= self.most:
            return NEVER
        if self._pause:
            return max(now, self._go_at)
        return now if self.flying < self._width else self._news_at + self._quiet

    @property
    def _width(self) -> int:
        width = self._rules.width
        return width if self.pace is None else min(width, max(1, round(self.pace)))

    @property
    def _quiet(self) -> float:
        quiet = self._rules.quiet
        return quiet if self.pace is None else max(quiet, 2 / self.pace)

    def went(self, many: int, now: float) -> None:
        """Raise the number of receivers in flight by `many`."""
        self.flying += many
        self._news_at = now
        if self._pause:
            # This request is a trial: if it is never answered, the next trial starts after the longest pause.
            self._trying = True
            self._go_at = now + self._rules.longest_pause

    def came(self, outcome: Outcome, now: float) -> None:
        """Lower the number of receivers in flight by one, and set the pause that follows from `outcome`."""
        self.flying -= 1
        self._news_at = now
        if outcome not in (Outcome.UNKNOWN, Outcome.AGAIN):
            self._pause = self._go_at = 0.0
            self._trying = False
        elif not self._pause:
            self._pause = self._rules.first_pause
            self._go_at = now + self._pause
        elif self._trying:
            # Only a trial doubles the pause. Other requests in flight began before the first unknown outcome.
            self._trying = False
            self._pause = min(self._rules.longest_pause, self._pause * 2)
            self._go_at = now + self._pause


@final
@guarded
class Stride:
    """One step of a broadcast: commit `writes` in one transaction, then send to the receivers `go`.

    Attributes:
        last: whether the step is the broadcast's last step, either for ever or until the bot's next start.
    """

    writes: tuple[BroadcastWrite, ...]
    go: tuple[Receiver, ...] = ()
    last: bool = False


@final
class BroadcastPlan:
    """The progress of one running broadcast.

    Attributes:
        stopped: whether the author has stopped the broadcast.
        resting: whether the bot is stopping; after its next start, the bot sends to the remaining receivers.

    Args:
        job: the broadcast's row.
        doubtful: receivers up to `BroadcastJob.meant` without an outcome. A crash left these receivers in
            doubt.
        doubt: the outcome that the `doubtful` receivers get.
        rules: the window's limits.
    """

    def __init__(
        self,
        job: BroadcastJob,
        doubtful: Sequence[Receiver] = (),
        rules: WindowRules | None = None,
        *,
        doubt: Outcome = Outcome.UNKNOWN,
    ) -> None:
        self.key = job.key
        self.stopped = job.status.state == "stopping"
        self.resting = False
        self.window = Window(rules)
        self._half = max(1, (rules or WindowRules()).width // 2)
        self._meant = job.meant
        self._read_to = job.meant
        self._all_read = False
        self._ahead: deque[Receiver] = deque()
        self._done = {receiver.position: doubt for receiver in doubtful}
        self._wrote_at = -NEVER

    @property
    def wants(self) -> int | None:
        """Position after which more receivers must be read now; None if no receivers are needed."""
        ending = self.stopped or self.resting
        return None if ending or self._all_read or len(self._ahead) >= self.window.most else self._read_to

    def read(self, receivers: Sequence[Receiver]) -> None:
        """Append receivers read from the store; a page of fewer than `PAGE` receivers is the last."""
        self._ahead.extend(receivers)
        self._all_read = len(receivers) < PAGE
        if receivers:
            self._read_to = receivers[-1].position

    def stride(self, now: float) -> Stride | None:
        """Return the next step; None if there is no step yet."""
        ending = self.stopped or self.resting
        go = () if ending else tuple(islice(self._ahead, self.window.room(now)))
        if not go and not self.window.flying and self._nothing_left(ending):
            writes = self._writes(self._meant)
            if self.stopped or not self.resting:
                writes = (*writes, TurnBroadcast(self.key, "stopped" if self.stopped else "done"))
            return Stride(writes, last=True)
        if not (go or self._done) or not self._ripe(now):
            return None
        return Stride(self._writes(go[-1].position if go else self._meant), go)

    def written(self, stride: Stride, now: float) -> Sequence[Receiver]:
        """Register that a step's writes are durable, and return the receivers to send to now."""
        self._wrote_at = now
        for write in stride.writes:
            if isinstance(write, AdvanceBroadcast):
                self._meant = write.meant
                for position, outcome in write.outcomes.items():
                    del self._done[position]
                    # AGAIN moves the receiver to the end of the queue, after all receivers that were read.
                    self._all_read = self._all_read and outcome is not Outcome.AGAIN
        for _ in stride.go:
            self._ahead.popleft()
        if self.stopped or self.resting:
            # The broadcast was stopped during the commit. These receivers get no request, so they are not in
            # doubt.
            self._done.update({one.position: Outcome.AGAIN for one in stride.go})
            return ()
        self.window.went(len(stride.go), now)
        return stride.go

    def came(self, receiver: Receiver, outcome: Outcome, now: float) -> bool:
        """Register the outcome of a request to a receiver.

        Returns:
            Whether to call `stride` now. If False, call `stride` at the time that the last call of
            `look_again` returned.
        """
        self.window.came(outcome, now)
        self._done[receiver.position] = outcome
        return len(self._done) in (1, self._half) or not self.window.flying

    def look_again(self, now: float) -> float:
        """Return when `stride` can next return a step without a new outcome."""
        soonest = NEVER
        if self._ahead and not (self.stopped or self.resting):
            soonest = max(self.window.look_again(now), self._wrote_at + MOMENT)
        if self._done:
            soonest = min(soonest, self._wrote_at + MOMENT)
        return soonest

    def _nothing_left(self, ending: bool) -> bool:
        return ending or (not self._ahead and self._all_read and Outcome.AGAIN not in self._done.values())

    def _ripe(self, now: float) -> bool:
        return len(self._done) >= self._half or now >= self._wrote_at + MOMENT

    def _writes(self, meant: int) -> tuple[BroadcastWrite, ...]:
        if meant == self._meant and not self._done:
            return ()
        return (AdvanceBroadcast(self.key, meant, dict(self._done)),)

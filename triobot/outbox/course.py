"""Where one broadcast is: who may be told next, and what is to be written down first. Pure.

The order is: write that these receivers are *meant*, with whatever outcomes are known by now; then tell them.
So each is told at most once: after a crash those who were meant and have no outcome are in doubt, and nobody
else is. One commit serves many receivers, because it waits until half a window has come back, or a moment
has passed.

`Window` says how many receivers may be on their way now. The outbox has its own bounds and its own pace; this
one bounds what a crash leaves unknown, and waits when going on would only spend receivers:

- An unknown outcome costs a receiver, because nobody is told twice. So after one the others wait,
  and one goes at a time, after a pause that doubles, until one is answered.
- Receivers who have left are refused like a refused token, and the breaker waits for somebody who is reached.
  When everything on its way waits for that, one more a second is let through to find somebody.
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
"""Receivers that are read at a time."""
MOMENT: Final = 0.05
"""Seconds for which outcomes wait for company."""


@final
@guarded
class WindowRules:
    """The constants of a window.

    Attributes:
        width: receivers on their way at a time: as many as the lanes send of this class in parallel. Whoever
            is meant beyond that would only wait there, and be in doubt after a crash without a request.
        extra: how many more when nothing comes back.
        quiet: seconds without news after which one more is let through.
        first_pause, longest_pause: seconds between two tries after an unknown outcome.
    """

    width: int = 16
    extra: int = 64
    quiet: float = 1.0
    first_pause: float = 1.0
    longest_pause: float = 60.0


@final
class Window:
    """The bound of one broadcast.

    Attributes:
        pace: requests that may start in a second; None: no limit is known. Whoever is meant beyond one
            second's would only wait there.
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
        """Return how many can be on their way at all."""
        return self._rules.width + self._rules.extra

    def room(self, now: float) -> int:
        """Return how many more may go now."""
        if self.flying >= self.most or now < self._go_at:
            return 0
        if self._pause:
            return 1
        if self.flying < self._width:
            return self._width - self.flying
        return int(now >= self._news_at + self._quiet)

    def look_again(self, now: float) -> float:
        """Return when there may be room, if nothing else happens; `NEVER` if only news helps."""
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
        """Count `many` more receivers as on their way."""
        self.flying += many
        self._news_at = now
        if self._pause:
            # The one that tells; should it never be answered, another goes after the longest pause.
            self._trying = True
            self._go_at = now + self._rules.longest_pause

    def came(self, outcome: Outcome, now: float) -> None:
        """Count one receiver less as on its way, and set the pause by its outcome."""
        self.flying -= 1
        self._news_at = now
        if outcome not in (Outcome.UNKNOWN, Outcome.AGAIN):
            self._pause = self._go_at = 0.0
            self._trying = False
        elif not self._pause:
            self._pause = self._rules.first_pause
            self._go_at = now + self._pause
        elif self._trying:
            # Others that left before the first bad news say nothing new.
            self._trying = False
            self._pause = min(self._rules.longest_pause, self._pause * 2)
            self._go_at = now + self._pause


@final
@guarded
class Stride:
    """What to do next: commit the writes, all at once, and then tell these.

    Attributes:
        last: the broadcast ends with it, or rests until the next start.
    """

    writes: tuple[BroadcastWrite, ...]
    go: tuple[Receiver, ...] = ()
    last: bool = False


@final
class Course:
    """One broadcast under way.

    Attributes:
        stopped: its author wants no more of it.
        resting: the bot comes to rest; what is left is for the next start.

    Args:
        job: its row.
        doubtful: receivers up to `BroadcastJob.meant` without an outcome: the last process died with them.
        doubt: what becomes of those.
        rules: the window's constants.
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
        """Return the position behind which receivers are to be read now; None if none are."""
        ending = self.stopped or self.resting
        return None if ending or self._all_read or len(self._ahead) >= self.window.most else self._read_to

    def read(self, receivers: Sequence[Receiver]) -> None:
        """Append receivers that were read; fewer than `PAGE` are the last ones."""
        self._ahead.extend(receivers)
        self._all_read = len(receivers) < PAGE
        if receivers:
            self._read_to = receivers[-1].position

    def stride(self, now: float) -> Stride | None:
        """Return what to do now; None if there is nothing yet."""
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
        """Record that a stride's writes are durable, and return the receivers to be told now."""
        self._wrote_at = now
        for write in stride.writes:
            if isinstance(write, AdvanceBroadcast):
                self._meant = write.meant
                for position, outcome in write.outcomes.items():
                    del self._done[position]
                    # It has a new place, behind everything that was read.
                    self._all_read = self._all_read and outcome is not Outcome.AGAIN
        for _ in stride.go:
            self._ahead.popleft()
        if self.stopped or self.resting:
            # Meanwhile: nobody tells them, so they are not in doubt.
            self._done.update({one.position: Outcome.AGAIN for one in stride.go})
            return ()
        self.window.went(len(stride.go), now)
        return stride.go

    def came(self, receiver: Receiver, outcome: Outcome, now: float) -> bool:
        """Record what became of a receiver who was told.

        Returns:
            Whether `stride` and `look_again` say something new; else they do so in a moment, as they said.
        """
        self.window.came(outcome, now)
        self._done[receiver.position] = outcome
        return len(self._done) in (1, self._half) or not self.window.flying

    def look_again(self, now: float) -> float:
        """Return when `stride` may say something new, if nothing else happens."""
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

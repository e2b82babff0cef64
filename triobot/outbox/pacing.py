"""How fast to start requests overall, while the platform's limits are unknown. Pure.

The rate is unlimited until the platform shows that it is too much. What shows it is a part of the outcomes
of a second or more, of some dozens:

- 429: a tenth of them. It is what the platform says when it means our rate.
- Late answers, other errors, lost connections: a third of them. A few say nothing about our rate, since
  something always fails somewhere.
- No answer: counted only where those that are answered come late, too, or nothing is answered at all. While
  others are answered at once, the reason is with the chats that aren't.

One or two lanes never slow the rest: their own repetitions wait, and that is enough.

A cut goes to a little less than what was carried, but at most to half of the rate. Then it is on trial: only
requests that were begun since are weighed. If they fare better, errors do speak of our rate, and from now on
a tenth of them is enough. If they don't, a second and a third cut follow; and if an eighth of the rate is no
better, the rate is not the cause. The cuts are taken back, and the next one needs a part well above what
fails now.

An outage is a cut before which nothing went well, and nothing was a 429. It says nothing of our rate. So the
first requests that go well bring the former rate back in a slow start: each doubles the rate, each failure
halves it.

Each second the rate grows by a twentieth of what it was before the first cut, as far as requests go well. At
twice of that the limit is forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

import attrs

from ..base.frozen import guarded


@final
@guarded
class PaceRules:
    """The constants of the overall pace.

    Attributes:
        least: starts a second that are always allowed.
        window: seconds over which outcomes are weighed, at least.
        longest_window: the same, at most; with fewer than `few` outcomes in it, nothing is concluded.
        enough: outcomes that are weighed together, unless the longest window is over before.
        few: the same, at least.
        lanes: so many must have been pushed back.
        cuts: so many in a row that don't help are taken back.
        limited: which part of the outcomes must be 429.
        bad: which part of them must be bad in any way.
        late: seconds after which an answer is late.
        most: starts a second that are never exceeded, whatever the platform bears; None: no limit.
    """

    least: float = 1.0
    window: float = 1.0
    longest_window: float = 10.0
    enough: int = 96
    few: int = 24
    lanes: int = 3
    cuts: int = 3
    limited: float = 0.1
    bad: float = 1 / 3
    late: float = 5.0
    most: float | None = None


@final
@attrs.define
class _Sample:
    """Outcomes that are weighed together.

    Attributes:
        since: when it began.
        well: answered as they should; `late` ones are among them.
        silent: not answered.
        lanes: some of those with bad outcomes.
    """

    since: float
    starts: int = 0
    well: int = 0
    late: int = 0
    limited: int = 0
    failed: int = 0
    silent: int = 0
    lanes: set[Hashable] = attrs.field(factory=set[Hashable], repr=False)


def _weight(sample: _Sample) -> tuple[int, float]:
    """Return how many outcomes count, and which part of them is bad."""
    # Silent ones do if at least half of the good answers are late.
    heard = sample.silent if 2 * sample.late >= sample.well else 0
    size = sample.well + sample.limited + sample.failed + heard
    return size, (sample.late + sample.limited + sample.failed + heard) / max(size, 1)


def _is_outage(sample: _Sample) -> bool:
    return not (sample.well or sample.limited)


@final
@guarded
class _Trial:
    """Cuts that are yet to prove right: the rate before them, and which part of the outcomes was bad.

    `outage`: nothing had gone well, and no limit was named.
    """

    rate: float | None
    bad: float
    cuts: int
    outage: bool


@final
class Pace:
    """Additive increase, multiplicative decrease, over all lanes; a decrease that was wrong is undone."""

    def __init__(self, rules: PaceRules | None = None) -> None:
        self._rules: Final = rules or PaceRules()
        self._rate: float | None = None
        self._next_start = 0.0
        self._sample = _Sample(float("-inf"))
        self._trial: _Trial | None = None
        # Starts a second before the first cut.
        self._carried = 0.0
        # The part that goes badly whatever our rate is, as the last wrong cut has shown.
        self._noise = 0.0
        self._proven = False
        self.usual = 0.0
        """Seconds that an answer takes at present."""

    @property
    def rate(self) -> float | None:
        """Return how many may start in a second; None for no limit."""
        most = self._rules.most
        return self._rate if most is None or (self._rate is not None and self._rate < most) else most

    def ready_at(self, now: float) -> float:
        """Return when the next request may start; `now` for at once."""
        return self._next_start if self._next_start > now and self.rate is not None else now

    def started(self, now: float) -> None:
        """Count a request that starts now."""
        if self._sample.since < now - self._rules.longest_window and self._trial is None:
            self._weigh(now)
        if now >= self._sample.since:
            self._sample.starts += 1
        if (rate := self.rate) is not None:
            self._next_start = max(self._next_start, now) + 1 / rate

    def is_late(self, began: float, now: float) -> bool:
        """Return whether an outcome came late; a failure that came late stands for no answer."""
        return now - began >= self._rules.late

    def went_well(self, who: Hashable, began: float, now: float) -> None:
        """Count a request that the platform answered as it should."""
        took = now - began
        self._took(took)
        if self._counts(began):
            if self._trial is not None and self._trial.outage and not self._sample.well:
                # It is over, and its failures say nothing of what comes now.
                self._sample = _Sample(now)
            self._sample.well += 1
            if took >= self._rules.late:
                self._sample.late += 1
                self._blame(who)
            if self._rate is not None:
                self._grow(self._rate, now)
            if now - self._sample.since >= self._rules.window:
                self._look(now)

    def pushed_back(self, who: Hashable, began: float, now: float, *, limited: bool) -> None:
        """Count a request that got a 429 (`limited`), another failure, or no answer."""
        silent = self.is_late(began, now) and not limited
        if not silent:
            self._took(now - began)
        if self._counts(began):
            self._sample.silent += silent
            self._sample.limited += limited
            self._sample.failed += not (silent or limited)
            self._blame(who)
            if self._rate is not None and self._trial is not None and self._trial.outage:
                self._rate = max(self._rules.least, self._rate / 2)
            self._look(now)

    def _took(self, seconds: float) -> None:
        self.usual = self.usual + (seconds - self.usual) / 16 if self.usual else seconds

    def _counts(self, began: float) -> bool:
        # What was in flight when the rate was cut says nothing of the new one.
        return self._trial is None or began >= self._sample.since

    def _blame(self, who: Hashable) -> None:
        if len(self._sample.lanes) < self._rules.lanes:
            self._sample.lanes.add(who)

    def _look(self, now: float) -> None:
        """Weigh the outcomes when there are enough."""
        rules, sample = self._rules, self._sample
        took = now - sample.since
        size, _ = _weight(sample)
        enough = took >= rules.window and size >= rules.enough
        # A trial waits for its few outcomes, however long they take.
        late = took >= rules.longest_window and (size >= rules.few or self._trial is None)
        if enough or late:
            self._weigh(now)

    def _weigh(self, now: float) -> None:
        rules, sample, trial = self._rules, self._sample, self._trial
        self._trial, self._sample = None, _Sample(now)
        size, bad = _weight(sample)
        if size < rules.few:
            return
        took = min(now - sample.since, 2 * rules.longest_window)
        if trial is not None and (
            trial.outage if _is_outage(sample) else bad > trial.bad / 3 and 1 - bad < 1.5 * (1 - trial.bad)
        ):
            if not trial.outage and trial.cuts >= rules.cuts:
                self._rate, self._noise, self._proven = trial.rate, bad, False
            else:
                self._cut(sample, took, now, attrs.evolve(trial, cuts=trial.cuts + 1))
            return
        if trial is not None and not trial.outage:
            self._proven = self._proven or trial.bad >= rules.bad
        if self._too_much(sample, size, bad):
            self._cut(sample, took, now, _Trial(self._rate, bad, 1, _is_outage(sample)))
        elif trial is not None:
            self._noise = bad
        self._noise -= max(0.0, self._noise - bad) / 16

    def _too_much(self, sample: _Sample, size: int, bad: float) -> bool:
        rules = self._rules
        limited = self._beyond_noise(rules.limited)
        most = limited if self._proven else self._beyond_noise(rules.bad)
        return len(sample.lanes) >= rules.lanes and (sample.limited >= limited * size or bad >= most)

    def _beyond_noise(self, share: float) -> float:
        return max(share, min(2 * self._noise + share / 2, (1 + self._noise) / 2))

    def _cut(self, sample: _Sample, took: float, now: float, trial: _Trial) -> None:
        started = sample.starts / took
        if self._rate is None:
            self._carried = started
            self._next_start = max(self._next_start, now)
        else:
            started = min(started, self._rate)
        self._trial = trial
        carried = (sample.well - sample.late) / took
        self._rate = max(self._rules.least, started / 2, 0.9 * carried)
        # Until then what starts still meets what was started before.
        self._sample.since = now + min(self.usual, self._rules.longest_window)

    def _grow(self, rate: float, now: float) -> None:
        if self._trial is not None:
            if self._trial.outage:
                self._start_slowly(rate, self._trial.rate, now)
        else:
            # So many go well each second that these add up to a second's growth.
            self._rate = rate + min(max(self._rules.least, self._carried / 20), rate / 4) / rate
            if self._rate >= 2 * max(self._rules.least, self._carried):
                self._rate = None
                self._proven = False

    def _start_slowly(self, rate: float, former: float | None, now: float) -> None:
        self._rate = 2 * rate
        if self._rate >= (self._carried if former is None else former):
            self._rate, self._trial, self._sample = former, None, _Sample(now)
        if (rate_now := self.rate) is not None:
            self._next_start = min(self._next_start, now + 1 / rate_now)

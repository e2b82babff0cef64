"""The overall rate of started requests, adapted to the platform's unknown limits. Pure.

At first, the rate is unlimited. A limit is set when outcomes show that the rate is too high. The evidence is
the share of bad outcomes in a sample of a few dozen outcomes, over a second or more:

- 429 answers: a tenth of the outcomes is enough, because the rate is the reason for a 429.
- Late answers, other errors and lost connections: a third of the outcomes is enough. A smaller share is no
  evidence, since some requests always fail.
- Requests without an answer: counted only if the answered requests are late too, or if nothing is answered at
  all. While requests to other chats are answered at once, the cause is the chats without answers, not the
  rate.

Bad outcomes of only one or two lanes never slow the other lanes: each lane pauses before its own retries.

A *cut* sets the rate to a little less than the number of timely successes in a second, but never below half
of the number of starts in a second. The cut is then *on trial*: only the outcomes of requests that began
after the cut are counted. If fewer of these outcomes are bad, the errors depend on the rate, and a share of a
tenth is enough for later cuts. If the share of bad outcomes stays the same, a second and a third cut follow.
If the share stays the same even at an eighth of the rate, the rate isn't the cause. Then the cuts are undone,
and the next cut needs a share well above the current share of failures.

An outage is a sample without any success and without any 429. An outage is no evidence about the rate. After
an outage the first successes restore the former rate in a slow start: each success doubles the rate, and each
failure halves the rate.

After a cut each second of successes raises the rate by a twentieth of the rate before the first cut. When the
limit reaches twice the rate before the first cut, the limit is removed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

import attrs

from ..base.frozen import guarded


@final
@guarded
class PaceRules:
    """Limits of the overall rate.

    Attributes:
        least: lowest rate, in starts a second.
        window: shortest time in seconds over which outcomes are weighed.
        longest_window: longest time in seconds over which outcomes are weighed; with fewer than `few`
            outcomes in this time, the rate isn't changed.
        enough: number of outcomes that ends a sample before the longest window is over.
        few: least number of outcomes for a conclusion.
        lanes: number of lanes that must have bad outcomes for a cut.
        cuts: number of cuts in a row without an improvement after which the cuts are undone.
        limited: share of 429 among the outcomes that causes a cut.
        bad: share of bad outcomes of any kind that causes a cut.
        late: seconds after which an answer is late.
        most: highest rate, in starts a second, whatever the platform accepts; None: no limit.
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
    """Counts of outcomes that are weighed together.

    Attributes:
        since: start of the sample.
        well: number of requests with a success, including the `late` successes.
        silent: number of requests without an answer.
        lanes: some of the lanes with bad outcomes.
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
    """Return the number of outcomes that are evidence, and the share of bad outcomes among these outcomes."""
    # Unanswered requests are evidence if at least half of the successes are late.
    heard = sample.silent if 2 * sample.late >= sample.well else 0
    size = sample.well + sample.limited + sample.failed + heard
    return size, (sample.late + sample.limited + sample.failed + heard) / max(size, 1)


def _is_outage(sample: _Sample) -> bool:
    return not (sample.well or sample.limited)


@final
@guarded
class _Trial:
    """Cuts that are on trial, with the rate and the share of bad outcomes before these cuts.

    Attributes:
        outage: whether the sample before the cuts had no success and no 429.
    """

    rate: float | None
    bad: float
    cuts: int
    outage: bool


@final
class Pace:
    """The overall rate: additive increase, multiplicative decrease; a wrong decrease is undone."""

    def __init__(self, rules: PaceRules | None = None) -> None:
        self._rules: Final = rules or PaceRules()
        self._rate: float | None = None
        self._next_start = 0.0
        self._sample = _Sample(float("-inf"))
        self._trial: _Trial | None = None
        # The rate before the first cut, in starts a second.
        self._carried = 0.0
        # Share of bad outcomes that doesn't depend on the rate, as measured by the last trial.
        self._noise = 0.0
        self._proven = False
        self.usual = 0.0
        """Seconds that an answer usually takes now."""

    @property
    def rate(self) -> float | None:
        """Largest number of starts in a second; None: no limit."""
        most = self._rules.most
        return self._rate if most is None or (self._rate is not None and self._rate < most) else most

    def ready_at(self, now: float) -> float:
        """Return when the next request may start; `now` if at once."""
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
        """Return whether an outcome came late; a late failure counts as no answer."""
        return now - began >= self._rules.late

    def went_well(self, who: Hashable, began: float, now: float) -> None:
        """Count a request's success."""
        took = now - began
        self._took(took)
        if self._counts(began):
            if self._trial is not None and self._trial.outage and not self._sample.well:
                # The outage is over. The failures of the outage are no evidence about later requests.
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
        # Requests that were in flight at the cut are no evidence about the new rate.
        return self._trial is None or began >= self._sample.since

    def _blame(self, who: Hashable) -> None:
        if len(self._sample.lanes) < self._rules.lanes:
            self._sample.lanes.add(who)

    def _look(self, now: float) -> None:
        rules, sample = self._rules, self._sample
        took = now - sample.since
        size, _ = _weight(sample)
        enough = took >= rules.window and size >= rules.enough
        # A trial waits until it has `few` outcomes, without a time limit.
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
        # The new sample begins some time after the cut, when the requests from before the cut have ended.
        self._sample.since = now + min(self.usual, self._rules.longest_window)

    def _grow(self, rate: float, now: float) -> None:
        if self._trial is not None:
            if self._trial.outage:
                self._start_slowly(rate, self._trial.rate, now)
        else:
            # The successes of one second add up to one second's growth.
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

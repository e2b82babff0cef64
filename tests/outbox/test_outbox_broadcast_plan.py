"""What is written before anybody is told, and after: any interleaving, and a crash anywhere in it."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.outbox.broadcast_plan import PAGE, BroadcastPlan, WindowRules
from triobot.seams.broadcasts import (
    AdvanceBroadcast,
    BroadcastJob,
    BroadcastStatus,
    Outcome,
    Receiver,
    TurnBroadcast,
)
from triobot.wire.ids import ChatId

RULES = WindowRules(width=4, extra=2)
ANSWERED = [Outcome.SENT, Outcome.GONE, Outcome.FAILED]


@attrs.define
class Rows:
    """A store's rows of one broadcast."""

    waiting: dict[int, ChatId]
    meant: int = 0
    last: int = 0
    counts: dict[Outcome, int] = attrs.field(factory=lambda: dict.fromkeys(Outcome, 0))
    over: bool = False

    def job(self) -> BroadcastJob:
        return BroadcastJob("k", 0, "x", self.meant, BroadcastStatus("sending"))

    def behind(self, after: int) -> list[Receiver]:
        return [Receiver(at, chat) for at, chat in sorted(self.waiting.items()) if at > after][:PAGE]

    def apply(self, write: object) -> None:
        if isinstance(write, TurnBroadcast):
            self.over = True
        if isinstance(write, AdvanceBroadcast):
            self.meant = max(self.meant, write.meant)
            for position, outcome in write.outcomes.items():
                chat = self.waiting.pop(position)
                self.counts[outcome] += 1
                if outcome is Outcome.AGAIN:
                    self.last += 1
                    self.waiting[self.last] = chat


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 30), st.data())
def test_each_is_told_once_or_unknown_whatever_happens(many: int, data: st.DataObject) -> None:
    rows = Rows({position: ChatId(position) for position in range(1, many + 1)}, last=many)
    told: list[ChatId] = []
    now, crashes, agains = 0.0, 0, 0
    while not rows.over:
        doubtful = [row for row in rows.behind(0) if row.position <= rows.meant]
        plan, flying = BroadcastPlan(rows.job(), doubtful, RULES), list[Receiver]()
        while not rows.over:
            now += 100  # every pause is over
            if (after := plan.wants) is not None:
                plan.read(rows.behind(after))
            stride = plan.stride(now)
            if stride is not None:
                for write in stride.writes:
                    rows.apply(write)
                if crashes < 3 and data.draw(st.booleans(), "crash before anybody is told"):
                    crashes += 1
                    break
                go = plan.written(stride, now)
                told += [receiver.chat_id for receiver in go]
                flying += go
                assert len(flying) <= RULES.width + RULES.extra
            if crashes < 3 and data.draw(st.integers(0, 9), "crash") == 0:
                crashes += 1
                break
            if flying and (stride is None or data.draw(st.booleans(), "one comes back")):
                receiver = flying.pop(data.draw(st.integers(0, len(flying) - 1), "who"))
                outcome = data.draw(st.sampled_from(ANSWERED + [Outcome.AGAIN] * (agains < 5)), "how")
                if outcome is Outcome.AGAIN:
                    agains += 1
                    told.remove(receiver.chat_id)
                plan.came(receiver, outcome, now)
            else:
                assert stride is not None or plan.look_again(now) < now + 100

    assert rows.waiting == {}
    assert len(told) == len(set(told))
    counted = {outcome: count for outcome, count in rows.counts.items() if outcome is not Outcome.AGAIN}
    assert sum(counted.values()) == many
    assert many - len(told) <= counted[Outcome.UNKNOWN] <= crashes * (RULES.width + RULES.extra)

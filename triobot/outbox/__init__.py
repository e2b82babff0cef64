"""What a chat sends, in order and at a pace that the platform bears.

Read it in this order: `lanes` and `pacing` (what may start), `retry` (what a failure means), `breaker` (whose
fault a refusal is), `delivery` (what waits in a lane), `uploads`, `typing`, `answers`; then `sender` and
`outbox`, the only ones with tasks. Everything is in memory: what must survive the process is written down by
whoever calls `perform`, before and after.
"""

from .outbox import LaneOutbox, open_outbox
from .rules import OutboxRules, OutboxStatistics

__all__ = ["LaneOutbox", "OutboxRules", "OutboxStatistics", "open_outbox"]

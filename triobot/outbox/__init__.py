"""What a chat sends, in order and at a pace that the platform bears.

Read it in this order: `lanes` and `pacing` (what may start), `retry` (what a failure means), `breaker` (whose
fault a refusal is), `delivery` (what waits in a lane), `suspects`, `uploads`, `typing`,
`answers`; then `sender` and `outbox`, the only ones with tasks. Everything is in memory: what must
survive the process is written down by the callers of `perform`, before and after.

Broadcasts are such a caller: `course` decides, `broadcasts` has the tasks.
"""

from .broadcasts import Announcement, Broadcasts, open_broadcasts
from .outbox import LaneOutbox, open_outbox
from .rules import LaneReport, OutboxRules, OutboxStatistics

__all__ = [
    "Announcement",
    "Broadcasts",
    "LaneOutbox",
    "LaneReport",
    "OutboxRules",
    "OutboxStatistics",
    "open_broadcasts",
    "open_outbox",
]

"""The outbox: sends each chat's operations in order, at a rate that the platform accepts.

Suggested reading order:

- `lanes`, `ready_queue`, `slots` and `pacing`: which operation may start;
- `retry`: the verdict on a failed attempt;
- `breaker`: whether the token or one chat caused a refusal;
- `delivery`: the entries of a lane;
- `suspects`, `uploads` and `answers`;
- `requests`: how an operation reaches the platform;
- `attempts`: applies the result of each attempt;
- `sender` and `outbox`: the only two modules that start tasks.

The outbox keeps everything in memory. A caller of `perform` must itself store all data that must survive the
process, both before and after the call.

Broadcasts call `perform` too: `broadcast_plan` selects the next receivers, and `broadcasts` runs the tasks.
"""

from .broadcasts import Broadcasts, open_broadcasts
from .outbox import LaneOutbox, open_outbox
from .rules import LaneReport, OutboxRules, OutboxStatistics

__all__ = [
    "Broadcasts",
    "LaneOutbox",
    "LaneReport",
    "OutboxRules",
    "OutboxStatistics",
    "open_broadcasts",
    "open_outbox",
]

"""Durable coroutines on Trio: a journal of records stores a coroutine's progress.

This package doesn't depend on chats, stores or platforms. A `Host` stores the records, and a `RunOwner` is
notified of a run's progress. A `Run` replays the author's code over the journal, and then goes on with new
events. Read `records` first, then `core`, `machine` and `run`. `docs/engine.md` describes the records and how
replay works.
"""

from .core import LEFT as LEFT
from .core import ContinuesAs as ContinuesAs
from .core import Crashed as Crashed
from .core import Diverged as Diverged
from .core import End as End
from .core import Evicted as Evicted
from .core import Returned as Returned
from .core import WasInterrupted as WasInterrupted
from .core import begun as begun
from .host import Host as Host
from .host import RunOwner as RunOwner
from .machine import Nursery as Nursery
from .machine import Scope as Scope
from .records import ABSENT as ABSENT
from .records import Codec as Codec
from .records import Put as Put
from .records import Record as Record
from .records import decode_record as decode_record
from .records import encode_record as encode_record
from .run import Run as Run
from .sync import Channel as Channel
from .sync import Event as Event

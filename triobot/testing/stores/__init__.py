"""What every store must do, as one suite: for those who write one.

>>> from triobot.testing.stores import SettableClock, StoreContract
>>> class TestMyStore(StoreContract):
...     def opened(self, clock: SettableClock, folder: Path) -> AbstractAsyncContextManager[Store]:
...         return open_my_store(folder / "store", clock=clock)

pytest, with pytest-trio, collects the rest. Nothing here knows an engine: everything goes through
`triobot.seams.Store`. A part of the suite may be run by itself, such as `MoneyContract`.
"""

from __future__ import annotations

from .broadcasts import BroadcastContract as BroadcastContract
from .contract import SettableClock as SettableClock
from .inbox import InboxContract as InboxContract
from .journals import JournalContract as JournalContract
from .journals import LeaseContract as LeaseContract
from .money import MoneyContract as MoneyContract
from .transactions import TransactionContract as TransactionContract


class StoreContract(
    InboxContract, TransactionContract, JournalContract, LeaseContract, MoneyContract, BroadcastContract
):
    """All of it. `opened` is yours: the store of a folder, whose time of day is `clock`."""

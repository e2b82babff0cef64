"""What every store must do, as one suite: `test_store_contract` holds both to it.

Nothing here knows an engine: everything goes through `triobot.store.Store`. A part of the suite may be run by
itself, such as `MoneyContract`.
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

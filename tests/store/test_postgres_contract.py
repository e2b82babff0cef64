"""PostgreSQL keeps the contract: a real server, over a socket."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.postgres import Server
from tests.store.contract import SettableClock, StoreContract
from triobot.store import Stamp, Store, open_store
from triobot.store.rules import RETENTION, Retention


class TestPostgres(StoreContract):
    server: ClassVar[Server]

    @pytest.fixture(autouse=True)
    def use(self, postgres: Server) -> None:
        TestPostgres.server = postgres

    def opened(
        self, clock: SettableClock, folder: Path, retention: Retention = RETENTION
    ) -> AbstractAsyncContextManager[Store]:
        stamp = Stamp("https://platform.test", "t")
        return open_store(self.server.url(), stamp=stamp, clock=clock, retention=retention)

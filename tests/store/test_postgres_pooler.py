"""A proxy that pools sessions stands before the server: a real pgbouncer, which is found out by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

from tests.loopback import PATIENCE
from tests.postgres import Server
from tests.processes.process import listen
from tests.store.contract import SettableClock
from triobot.errors import ConfigError, StoreAwayError
from triobot.store import Stamp, open_store

STAMP = Stamp("https://platform.test", "t")
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer isn't installed")


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_proxy_that_shares_sessions_is_refused(postgres: Server, mode: str) -> None:
    assert PGBOUNCER is not None
    with listen() as sock:
        port = sock.getsockname()[1]
    folder = postgres.folder.parent
    users, settings = folder / "users", folder / f"{mode}.ini"
    users.write_text('"bots" ""\n')
    settings.write_text(
        f"[databases]\nbots = host=127.0.0.1 port={postgres.port}\n[pgbouncer]\nlisten_addr=127.0.0.1\n"
        f"listen_port={port}\nunix_socket_dir=\nauth_type=trust\nauth_file={users}\npool_mode={mode}\n"
    )
    command = [PGBOUNCER, str(settings)]
    if os.geteuid() == 0:
        owner = folder.stat()
        command = [
            "setpriv",
            f"--reuid={owner.st_uid}",
            f"--regid={owner.st_gid}",
            "--clear-groups",
            *command,
        ]
    proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    try:
        with pytest.raises(ConfigError, match="a proxy that shares sessions") as caught:
            while time.monotonic() < until:
                try:
                    async with open_store(postgres.url(port=port), stamp=STAMP, clock=SettableClock()):
                        break
                except StoreAwayError:  # it doesn't listen yet
                    assert proxy.poll() is None
        assert "name the server itself" in str(caught.value)
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)

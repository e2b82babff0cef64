"""Finds the modules that a bot loads until it has served an event: the code of the core."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from .sources import ROOT, Module, code_lines

_PATIENCE: Final = 120
_EVENT: Final = b"chat_id=1&type=text&data=hi"


def modules_loaded(modules: Sequence[Module]) -> list[Module]:
    """Run ``triobot run`` with a small shop's bot on SQLite, post one event, and see what was loaded."""
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        listening, log = Path(folder, "socket"), Path(folder, "log")
        command = [sys.executable, "-m", "triobot", "run", "tests.bars.shop:bot", "--unix", str(listening)]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRIOBOT_")},
            "TRIOBOT_TOKEN": "0000:shop",
            "TRIOBOT_WEBHOOK_SECRET": secret,
            "TRIOBOT_STORE": f"sqlite:{folder}/shop.db",
            "TRIOBOT_BASE_URL": "http://127.0.0.1:9",  # nothing listens there, so sends are retried
            "TRIOBOT_GRACE": "0",
        }
        with log.open("w") as errors:
            running = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            try:
                _post(running, listening, secret)
                told, _ = running.communicate(timeout=_PATIENCE)
            except BaseException as error:
                running.kill()
                running.wait()
                error.add_note(log.read_text()[-2_000:])
                raise
    names = {name.removeprefix("triobot").lstrip(".").replace(".", "/") for name in told.split()}
    return [one for one in modules if one.name.removesuffix("__init__").rstrip("/") in names]


def lines_loaded(modules: Sequence[Module]) -> int:
    """Count the code lines of what a bot loads."""
    return sum(map(code_lines, modules_loaded(modules)))


def _post(running: subprocess.Popen[str], listening: Path, secret: str) -> None:
    head = f"POST /{secret} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: {len(_EVENT)}\r\n"
    kind = "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    while running.poll() is None:
        with suppress(FileNotFoundError, ConnectionRefusedError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(listening))
            sock.sendall(f"{head}{kind}".encode() + _EVENT)
            assert b" 200 " in sock.recv(4_096)
            return
    raise AssertionError(f"the bot did not start: exit code {running.returncode}")

"""What `deploy` offers, as far as a machine without a supervisor and containers can run it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
import trio

from tests.loopback import PATIENCE, Platform, free_port, open_platform, text_event
from tests.processes.process import BOTS, ROOT, SECRET, TOKEN, BotProcess, environment
from tests.processes.proxy import (
    DEPLOY,
    before_nodes,
    behind_caddy,
    needs,
    needs_nginx_as_another_user,
    proxied,
)
from triobot.cli import main
from triobot.webhook.limits import Limits

pytestmark = pytest.mark.processes

FORM = {"content-type": "application/x-www-form-urlencoded"}
TRIOBOT = [sys.executable, "-m", "triobot"]


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that other users may look into; pytest's own are for one user."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@asynccontextmanager
async def running(folder: Path, platform: Platform) -> AsyncGenerator[BotProcess]:
    """A bot at the socket where the proxies look for it."""
    path = folder / "pizza.sock"
    own = {"TRIOBOT_UNIX": str(path), "TRIOBOT_UNIX_MODE": "660", "TRIOBOT_UNIX_GROUP": "www-data"}
    own |= {"TRIOBOT_BASE_URL": platform.url, "TRIOBOT_STORE": f"sqlite:{folder}/bot.db"}
    popen = subprocess.Popen([*TRIOBOT, "run", f"{BOTS}:bot"], cwd=ROOT, env=environment(**own))
    try:
        while not path.exists():
            assert popen.poll() is None
            await trio.sleep(0.02)
        yield BotProcess(popen)
    finally:
        popen.kill()
        popen.wait()


async def use(client: httpx.AsyncClient, platform: Platform, process: BotProcess) -> None:
    """Three events come through, three strangers hear nothing, and one event comes when the bot is gone."""
    for number in range(3):
        answer = await client.post(f"/{SECRET}", content=text_event(7, str(number)), headers=FORM)
        assert answer.status_code == 200
    await platform.wait_until(lambda: platform.total == 3)
    for stranger in ("/healthz", f"/{SECRET}x", f"/x?{SECRET}"):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(stranger)
    await process.stop()
    answer = await client.post(f"/{SECRET}", content=text_event(7, "late"), headers=FORM)
    assert answer.status_code == 502


@needs_nginx_as_another_user
async def test_nginx_as_another_user_and_its_logs(folder: Path) -> None:
    """Events come through, strangers hear nothing, and no log holds the secret, with and without the bot."""
    with trio.fail_after(PATIENCE):
        async with (
            open_platform() as platform,
            running(folder, platform) as process,
            proxied(folder, folder / "pizza.sock", SECRET) as client,
        ):
            await use(client, platform, process)

    logs = {file.name: file.read_text() for file in (folder / "log").iterdir()}
    assert [line.split()[2:4] for line in logs["pizza.log"].splitlines()] == [
        *[["POST", "200"]] * 3,
        *[["GET", "444"]] * 3,
        ["POST", "502"],
    ]
    assert not [name for name, log in logs.items() if SECRET in log]


class Answering(BaseHTTPRequestHandler):
    """A node that refuses the events of one chat."""

    protocol_version = "HTTP/1.1"
    refused = b"crowded"

    def do_POST(self) -> None:
        said = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(503 if said.startswith(self.refused) else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(kind: type[Answering]) -> Generator[str]:
    """A node in a thread; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@needs_nginx_as_another_user
async def test_a_503_for_one_chat_refuses_nobody_else(folder: Path) -> None:
    """Whatever a node answers, it is asked for the next event; the other one is dead."""
    with ExitStack() as stack, trio.fail_after(PATIENCE):
        works = stack.enter_context(answering(Answering))
        dead = f"127.0.0.1:{free_port()}"
        async with (
            before_nodes(folder, [dead, works], SECRET) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            said = ["crowded", "fine", "fine"] * 20
            answers = [(await client.post(f"/{SECRET}", content=words)).status_code for words in said]
    refused = {words for words, answer in zip(said, answers, strict=True) if answer != 200}
    assert refused == {"crowded"}


@needs("caddy")
async def test_caddy_and_its_log(folder: Path) -> None:
    """The same, but that Caddy says of the bot that is gone what failed, and not at which path."""
    with trio.fail_after(PATIENCE):
        async with (
            open_platform() as platform,
            running(folder, platform) as process,
            behind_caddy(folder, folder / "pizza.sock", SECRET) as client,
        ):
            await use(client, platform, process)

    log = (folder / "caddy.log").read_text()
    told = [line for line in map(json.loads, log.splitlines()) if "request" in line]
    handled = [line for line in told if line["logger"].startswith("http.log.access")]
    assert [line["status"] for line in handled] == [200, 200, 200, 0, 0, 0, 502]
    failed = [line["logger"] for line in told if line["level"] == "error" and line not in handled]
    assert failed == ["http.log.error.log0"]
    assert {line["request"]["uri"] for line in told} == {"/***"}
    assert SECRET not in log


@pytest.mark.parametrize(
    ("file", "setting"),
    [("nginx/pizza.conf", r"keepalive_timeout (\d+)s;"), ("caddy/Caddyfile", r"keepalive (\d+)s\n")],
)
def test_a_proxy_keeps_connections_shorter_than_the_bot(file: str, setting: str) -> None:
    (kept,) = re.findall(setting, (DEPLOY / file).read_text())

    assert int(kept) < Limits().idle_seconds


@needs("systemd-analyze")
def test_the_units(tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").glob("pizza*"):
        text = unit.read_text().replace("/opt/pizza/.venv/bin/triobot", sys.executable)
        (tmp_path / unit.name).write_text(
            text.replace("/opt/pizza/backup.sh", str(DEPLOY / "systemd/backup.sh"))
        )
    units = [str(unit) for unit in sorted(tmp_path.iterdir())]
    assert len(units) == 5

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], check=False, capture_output=True, text=True
    )

    # Other units of the machine may have faults of their own.
    assert not [line for line in done.stderr.splitlines() if "pizza" in line]


@pytest.mark.slow
def test_a_backup_takes_the_oldest_one_s_place(tmp_path: Path) -> None:
    """What an interrupted run left goes, too; nothing else in the folder does."""
    store, folder = tmp_path / "bot.db", tmp_path / "two words"
    folder.mkdir()
    for name in (
        "20200101T000000Z.db",
        "20210101T000000Z.db",
        "20220101T000000Z.db",
        "20220102T000000Z.db.part",
    ):
        (folder / name).touch()
    (folder / "notes.txt").touch()
    triobot = tmp_path / "triobot"
    triobot.write_text(f'#!/bin/sh\nexec {sys.executable} -m triobot "$@"\n')
    triobot.chmod(0o755)
    own = environment(TRIOBOT_STORE=f"sqlite:{store}", TRIOBOT_WEBHOOK_SECRET="")
    made = [*TRIOBOT, "webhook-url", f"{BOTS}:bot", "--public-url", "https://bot.example.org"]
    subprocess.run(made, check=True, cwd=ROOT, env=own, capture_output=True)
    del own["TRIOBOT_TOKEN"]

    command = [str(DEPLOY / "systemd/backup.sh"), str(triobot), f"sqlite:{store}", str(folder), "2"]
    subprocess.run(command, check=True, env=own, capture_output=True)

    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == 3
    assert kept[0] == "20220101T000000Z.db"
    assert kept[1] > "2026"
    assert kept[2] == "notes.txt"


def steps(name: str) -> list[str]:
    """What the steps of this name of the container file say."""
    return re.findall(rf"(?m)^{name} (.*)$", (DEPLOY / "container/Containerfile").read_text())


def step(name: str) -> str:
    """What the one step of this name says."""
    (found,) = steps(name)
    return found


@pytest.mark.slow
def test_the_container_s_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clean folder, with what `triobot new` makes, its variables, its command and its health check."""
    monkeypatch.chdir(tmp_path)
    main(["new", "pizza"])
    for copied in steps("COPY"):
        assert all([*(tmp_path / "pizza").glob(pattern)] for pattern in copied.split()[:-1])
    port, metrics = free_port(), free_port()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "data").mkdir()
    variables = dict(pair.split("=", 1) for line in steps("ENV") for pair in line.split())
    places = {
        "/run/secrets/token": f"{tmp_path}/token",
        "/data": f"{tmp_path}/data",
        "8080": str(port),
        "9464": str(metrics),
    }
    for name, value in variables.items():
        for old, new in places.items():
            value = value.replace(old, new)
        variables[name] = value
    own = environment(**variables)
    del own["TRIOBOT_TOKEN"]
    program, *arguments = json.loads(step("CMD"))
    assert program == "triobot"
    health = json.loads(step("HEALTHCHECK").partition(" CMD ")[2].replace("8080", str(port)))
    popen = subprocess.Popen([*TRIOBOT, *arguments], cwd=tmp_path / "pizza", env=own)
    try:
        check = partial(subprocess.run, [sys.executable, *health[1:]], check=False, capture_output=True)
        assert check().returncode in (0, 1)
        while check().returncode != 0:
            assert popen.poll() is None
        assert step("EXPOSE").split() == ["8080", "9464"]
        # Not at 127.0.0.1 only, which nobody outside a container reaches.
        told = httpx.get(f"http://127.0.0.3:{metrics}/metrics", timeout=PATIENCE)
        assert "triobot_working{" in told.text
        popen.send_signal(signal.Signals[step("STOPSIGNAL")])
        assert popen.wait(PATIENCE) == 0
        assert check().returncode == 1
    finally:
        popen.kill()
        popen.wait()
    assert (tmp_path / "data/triobot.db").is_file()
    assert step("USER") == "bot"


def test_two_containers_have_what_the_image_and_the_proxy_name() -> None:
    """Compose's files are not run here: what they take from the others is there."""
    container = DEPLOY / "container"
    nodes = (container / "compose-two.yaml").read_text()
    assert "dockerfile: Containerfile" in nodes
    variables = dict(pair.split("=", 1) for line in steps("ENV") for pair in line.split())
    # The nodes' store is on the server, and in the volume is what they note for themselves.
    assert f"STATE_DIRECTORY: {step('VOLUME')}" in nodes
    (store,) = re.findall(r"TRIOBOT_STORE: (\S+)", nodes)
    assert store == "postgresql://pizza@database/pizza"
    # The token is where the image looks for it, and the password is given, not written down.
    assert variables["TRIOBOT_TOKEN_FILE"] == "/run/secrets/token"
    assert re.search(r"secrets: \[token\]", nodes)
    passwords = re.findall(r"(\w+PASSWORD): (.*)", nodes)
    assert [name for name, _ in passwords] == ["PGPASSWORD", "POSTGRES_PASSWORD"]
    assert {value for _, value in passwords} == {'"${PASSWORD:?in .env}"'}
    # They end as the image's signal says, within the time that a stop may take.
    assert "stop_grace_period: 30s" in nodes
    # The proxy's file is the one that is offered, and finds its certificate where it says.
    proxy = (DEPLOY / "nginx/pizza-two.conf").read_text()
    folders = set(re.findall(r"ssl_certificate\w* (/\S+)/[^/]+;", proxy))
    assert {f"./tls:{folder}:ro" for folder in folders} <= set(re.findall(r"\"(\S+?)\"", nodes))
    assert "./pizza-two.conf:/etc/nginx/conf.d/pizza.conf:ro" in nodes

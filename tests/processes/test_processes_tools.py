"""All that an operator has, at once: each tool sees what it should, and none of them a secret."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
import trio

from tests.loopback import PATIENCE, Platform, contact_event, open_platform, text_event
from tests.processes.process import ROOT, BotProcess, Heard, environment, listen
from tests.processes.proxy import DEPLOY, needs, needs_nginx_as_another_user, proxied

pytestmark = pytest.mark.processes

FORM = {"content-type": "application/x-www-form-urlencoded"}
TOKENS = {"shop": "token-of-the-shop-4711", "desk": "token-of-the-desk-4712"}
SECRETS = {name: f"secret-path-of-the-{name}-0123456789" for name in TOKENS}
PHONE, TEXT, HEARD = "+989121234567", "Valiasr 7, third floor", "Which number do we call?"
CHAT = 7_340_019
CRASH = "the oven is cold"


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that nginx's user may look into; pytest's own are for one user."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@asynccontextmanager
async def running_pizzeria(folder: Path, platform: Platform) -> AsyncGenerator[tuple[BotProcess, Heard]]:
    """Two bots on the stock lane behind one path, under a supervisor; yields them when they are ready."""
    own = {"SEEN": str(folder), "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "30000000"}
    for name, token in TOKENS.items():
        settings = {"TOKEN": token, "WEBHOOK_SECRET": SECRETS[name], "TRACE_SHARE": "1"}
        settings |= {"BASE_URL": platform.url, "STORE": f"sqlite:{folder}/{name}.db"}
        own |= {f"{name.upper()}_{setting}": value for setting, value in settings.items()}
    command = [
        sys.executable,
        "-m",
        "triobot",
        "run",
        *(f"tests.processes.pizzeria:{name}" for name in TOKENS),
    ]
    command += ["--server", "hypercorn", "--access-log", "--log-format", "json", "--metrics-port", "0"]
    command += ["--unix", str(folder / "sock"), "--unix-mode", "660", "--unix-group", "www-data"]
    systemd, log = Heard(folder / "notify"), folder / "output"
    with log.open("wb") as output:
        popen = subprocess.Popen(command, cwd=ROOT, env=environment(**own), stdout=output, stderr=output)
    try:
        while b"READY=1" not in systemd.said():
            assert popen.poll() is None, log.read_text()
            await trio.sleep(0.02)
        yield BotProcess(popen, log), systemd
    finally:
        popen.kill()
        popen.wait()
        systemd.close()


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncGenerator[httpx.AsyncClient]:
    """The real one, by the configuration that is there to be copied."""
    config = (DEPLOY / "prometheus/scrape.yml").read_text(encoding="utf-8")
    (folder / "scrape.yml").write_text(config.replace("127.0.0.1:9464", target).replace("15s", "1s"))
    (folder / "alerts.yml").write_bytes((DEPLOY / "prometheus/alerts.yml").read_bytes())
    with listen() as free:
        port = free.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/scrape.yml", f"--storage.tsdb.path={folder}/data"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    quiet = partial(trio.run_process, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(quiet, command)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield client
        nursery.cancel_scope.cancel()


async def scraped(client: httpx.AsyncClient, query: str) -> list[dict[str, Any]]:
    """What it knows; nothing while it starts, and before it has looked into its folder."""
    try:
        answer = await client.get("/api/v1/query", params={"query": query})
    except httpx.TransportError:
        return []
    return list(answer.json()["data"]["result"]) if answer.status_code == 200 else []


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@needs_nginx_as_another_user
@needs("prometheus")
async def test_each_tool_sees_what_it_should_and_no_secret(folder: Path) -> None:
    """nginx, hypercorn, two bots of one process, systemd, Prometheus, OpenTelemetry and Sentry."""
    with trio.fail_after(PATIENCE):
        async with open_platform() as platform, running_pizzeria(folder, platform) as (process, systemd):
            (address,) = re.findall(r"metrics are at http://(127\.0\.0\.1:\d+)/metrics", process.output)
            async with (
                prometheus(folder, address) as monitor,
                proxied(folder, folder / "sock", *SECRETS.values()) as client,
            ):
                for name, body in (
                    ("shop", text_event(CHAT, TEXT)),
                    ("desk", text_event(CHAT, TEXT)),
                    ("shop", contact_event(CHAT, PHONE)),
                ):
                    answer = await client.post(f"/{SECRETS[name]}", content=body, headers=FORM)
                    assert answer.status_code == 200
                    if name == "shop":
                        await platform.wait_until(lambda: HEARD in platform.texts[CHAT])
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get(f"/{SECRETS['shop']}x")
                alarm = 'triobot_alarms{kind="conversation_crashed"} == 1'
                while not (crashed := await scraped(monitor, alarm)):
                    await trio.sleep(0.1)
                samples = await scraped(monitor, '{job="triobot"}')
            assert await process.stop() == 0
            assert systemd.said() == [b"READY=1", b"STOPPING=1"]

    assert b"WATCHDOG=1" in systemd.all
    assert [one["metric"]["bot"] for one in crashed] == ["shop"]
    accepted = {
        one["metric"]["bot"]: one["value"][1]
        for one in samples
        if one["metric"]["__name__"] == "triobot_events_total" and one["metric"]["outcome"] == "accepted"
    }
    assert accepted == {"shop": "2", "desk": "1"}

    names = {span["name"].partition(" ")[0] for span in lines(folder / "spans")}
    assert {"webhook", "accept", "turn", "send", "request", "POST", "oven"} <= names
    spans = [one for one in lines(folder / "spans") if one["attributes"].get("triobot.bot")]
    assert {one["attributes"]["triobot.bot"] for one in spans} == set(TOKENS)

    (event,) = [one for one in lines(folder / "sentry") if one.get("tags", {}).get("bot")]
    raised = event["exception"]["values"][-1]
    assert (raised["type"], raised["value"]) == ("LookupError", CRASH)
    frames = [frame["function"] for frame in raised["stacktrace"]["frames"]]
    assert frames[-2:] == ["order", "bake"]
    assert event["tags"]["bot"] == "shop"
    assert event["tags"]["route"].endswith("order")

    told = lines(folder / "output")
    assert {line.get("bot") for line in told} >= set(TOKENS)
    assert "POST /*** 200" in " ".join(line["message"] for line in told)
    access = (folder / "log/pizza.log").read_text().splitlines()
    assert [line.split()[2:4] for line in access] == [*[["POST", "200"]] * 3, ["GET", "444"]]

    seen = {str(file.relative_to(folder)): file.read_text() for file in (folder / "log").iterdir()}
    seen |= {name: (folder / name).read_text() for name in ("spans", "sentry", "output")}
    seen |= {"prometheus": json.dumps(samples)}
    hidden = (*TOKENS.values(), *SECRETS.values(), PHONE, PHONE[1:], TEXT, TEXT[:7])
    assert [(name, word) for name, text in seen.items() for word in hidden if word in text] == []

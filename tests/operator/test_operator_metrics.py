"""What a scraper is told, and that all that plots and rules ask for is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import httpx
import pytest
import trio

from tests.bot.rig import SECRET, Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, Chat, Settings
from triobot.errors import StoreCorruptError
from triobot.operator.api import OperatorApi
from triobot.operator.metrics import CONTENT_TYPE, METRICS, exposition
from triobot.runtime.serve import serve_together
from triobot.seams.writes import Latencies

DEPLOY = Path(__file__).parents[2] / "deploy"
SAMPLE = re.compile(
    r'([a-z_]+)\{([a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*)\} (\S+)'
)
# Only of a bot that sells, and of one whose rate is bounded.
SELDOM = {"triobot_payments", "triobot_payment_facts_total", "triobot_outbox_rate"}


def samples(text: str) -> dict[tuple[str, str], float]:
    """Read an exposition as strictly as a scraper: each line is a sample, or names what follows."""
    found: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            parts = SAMPLE.fullmatch(line)
            assert parts is not None, line
            assert (parts[1], parts[2]) not in found, line
            found[parts[1], parts[2]] = float(parts[3])
    assert text.endswith("\n")
    return found


def settings(folder: Path, number: int = 0, **more: object) -> Settings:
    given = make_bot(Chats(), store=f"sqlite:{folder / f'{number}.db'}").settings()
    own = {"webhook_secret": f"{SECRET}-{number}", "token": f"token-{number}", **more}
    return attrs.evolve(given, **own)  # type: ignore[arg-type]


def busy_bot(chats: Chats, given: Settings) -> Bot:
    """It asks, and crashes at the answer."""
    bot = Bot(settings=given, transport=httpx.MockTransport(chats.take))

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("What?")
        raise ValueError(await chat.ask("And?"))

    return bot


@asynccontextmanager
async def ran(folder: Path) -> AsyncGenerator[Path]:
    """A bot that has done all that it does; yields its operator's socket."""
    chats = Chats()
    async with busy_bot(chats, settings(folder, name="shop")).running() as intake:
        for words in ("hi", "no"):
            await say(intake, 7, words)
            await chats.wait_for(7, *["What?", "And?"]) if words == "hi" else None
        await say(intake, 8, "hi")
        await chats.wait_for(8, "What?", "And?")
        with trio.fail_after(PATIENCE):
            while not await intake.store.alarms.open(limit=1):
                await trio.sleep(0.01)
        yield folder / "0.db.sock"


def unix_client(socket: Path) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(socket)), base_url="http://bot")


async def test_a_scraper_is_told_what_a_bot_has_done(tmp_path: Path) -> None:
    async with ran(tmp_path) as socket, unix_client(socket) as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        head = await client.head("/metrics")
        assert (head.status_code, head.content) == (200, b"")
        assert (await client.get("/metric")).status_code == 404
    found = samples(answer.text)
    assert found["triobot_working", 'bot="shop"'] == 1
    assert found["triobot_events_total", 'bot="shop",outcome="accepted"'] == 3
    assert found["triobot_conversations", 'bot="shop",state="all"'] == 1
    assert found["triobot_conversation_events_total", 'bot="shop",what="crashed"'] == 1
    assert found["triobot_sends_total", 'bot="shop",outcome="done"'] >= 4
    assert found["triobot_alarms", 'bot="shop",kind="conversation_crashed"'] == 1
    assert found["triobot_alarms", 'bot="shop",kind="token_refused"'] == 0
    writes = [
        value for (name, labels), value in found.items() if name.endswith("bucket") and "write" in labels
    ]
    assert writes == sorted(writes)
    assert writes[-1] == found["triobot_store_seconds_count", 'bot="shop",kind="write"'] > 0


def used(text: str) -> set[str]:
    """The names that queries use."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\btriobot_[a-z_]+", text)}


async def test_plots_and_rules_ask_for_what_is_there(tmp_path: Path) -> None:
    async with ran(tmp_path) as socket, unix_client(socket) as client:
        text = (await client.get("/metrics")).text
    told = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in samples(text)}
    declared = {metric.name for metric in METRICS}
    assert told == declared - SELDOM - {"triobot_requests_refused_total"}  # this one has no listener
    for file in ("grafana/dashboard.json", "prometheus/alerts.yml"):
        names = used((DEPLOY / file).read_text(encoding="utf-8"))
        assert names
        assert names <= declared
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text(encoding="utf-8"))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    shown = used(json.dumps(dashboard))
    assert declared - shown <= {
        *("triobot_start_time_seconds", "triobot_unclean_stops", "triobot_inbox_bytes"),
        *("triobot_answers_total", "triobot_payments_unverified"),
        *("triobot_payments_unsettled", "triobot_payment_facts_total"),
    }


async def serve(pairs: list[tuple[Bot, Settings]], *, task_status: trio.TaskStatus[list[str]]) -> None:
    await serve_together(pairs, task_status=task_status)


@asynccontextmanager
async def two_on_a_port(folder: Path, caplog: pytest.LogCaptureFixture) -> AsyncGenerator[str]:
    """Two bots in one process; yields where their metrics are."""
    caplog.set_level("INFO", "triobot")
    given = [
        settings(folder, number, metrics_host="127.0.0.2", metrics_port=0, name=f"bot {number}")
        for number in (0, 1)
    ]
    pairs = [(busy_bot(Chats(), one), one) for one in given]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, pairs))
        (address,) = re.findall(r"metrics are at (http://127\.0\.0\.2:\d+/metrics)", caplog.text)
        yield address
        pairs[0][0].stop()


async def test_a_port_tells_of_all_bots_of_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_on_a_port(tmp_path, caplog) as address, httpx.AsyncClient() as client:
        answer = await client.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        found = samples(answer.text)
        assert [found["triobot_working", f'bot="bot {number}"'] for number in (0, 1)] == [1, 1]
        assert found["triobot_requests_refused_total", 'bot="bot 0",reason="unknown_path"'] == 0
        # Of each name once, whatever the number of bots.
        assert answer.text.count("# TYPE triobot_working gauge") == 1
        assert (await client.get(address.replace("metrics", ""))).status_code == 404
        assert (await client.post(address)).status_code == 405

        async def fail(self: OperatorApi) -> None:
            raise StoreCorruptError("the store is damaged")

        monkeypatch.setattr(OperatorApi, "metrics", fail)
        assert (await client.get(address)).status_code == 503


def test_a_name_is_written_so_that_it_ends_where_it_ends() -> None:
    text = exposition({'a"b\\c\nd': {"working": True, "at": 1}})
    assert 'triobot_working{bot="a\\"b\\\\c\\nd"} 1\n' in text
    assert samples(text)


def test_a_histogram_counts_up() -> None:
    told = {"store_latencies": {"write": Latencies((0.1, 1.0), (2, 0, 3), 9.5)}, "at": 1}
    rows = [line for line in exposition({"b": told}).splitlines() if line.startswith("triobot_store")]
    assert [row.rpartition(" ")[2] for row in rows] == ["2", "2", "5", "9.5", "5"]
    assert 'le="+Inf"' in rows[2]


# By a mark: what an async test says when it skips itself is lost.
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (Debian: prometheus)"
)


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    for what, file in (("rules", "alerts.yml"), ("config", "scrape.yml")):
        checked = ["promtool", "check", what, str(DEPLOY / "prometheus" / file)]
        ended = subprocess.run(checked, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_promtool
async def test_promtool_accepts_what_a_scraper_is_told(tmp_path: Path) -> None:
    async with ran(tmp_path) as socket, unix_client(socket) as client:
        text = (await client.get("/metrics")).content
    ended = await trio.run_process(
        ["promtool", "check", "metrics"], stdin=text, capture_stdout=True, capture_stderr=True, check=False
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, b"")

"""A bot that is to end while its database's server stands still: it is reached, and answers nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.loopback import Users, free_port, open_platform
from tests.postgres import run_server, why_not
from tests.processes.nodes import READY
from tests.processes.process import SECRET, start_node

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}"),
]

WORDS = (
    "went away in the middle of a commit, which may or may not be stored; everything acknowledged before is"
)


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
async def test_it_ends_and_says_that_what_was_in_hand_may_not_be_stored(tmp_path: Path, signals: int) -> None:
    """A thread that waits for such a server would wait for ever; a second signal waits for no grace."""
    with run_server() as server:
        async with open_platform() as platform:
            port, log = free_port(), tmp_path / "log"
            process = await start_node(
                "bot",
                port=port,
                platform=platform.url,
                store=server.url(query="schema=one"),
                log=log,
                ready=READY,
                environ={"TRIOBOT_GRACE": "1" if signals == 1 else "1000"},
            )
            try:
                users, answers = Users(port, f"/{SECRET}"), list[int]()
                assert await users.calls(1, "acknowledged") == 200
                await platform.wait_until(lambda: platform.total == 1)
                server.freeze()
                async with users.connect() as line, trio.open_nursery() as nursery:

                    async def say() -> None:
                        answers.append(await users.say(line, 1, "in hand"))

                    nursery.start_soon(say)
                    # Until the request is sent: a process that ends at once would refuse the connection.
                    await wait_all_tasks_blocked()
                    for _ in range(signals):
                        process.popen.send_signal(signal.SIGTERM)
                        while "stopping on SIGTERM" not in log.read_text():
                            await trio.sleep(0.01)
                    await process.wait()
            finally:
                process.kill_now()
                server.thaw()
            assert answers[0] in (0, 503)
            assert WORDS in log.read_text() or "could not be closed cleanly" in log.read_text()
            # A server that goes on does what it has been sent, whoever waits for it.
            assert server.ask("SELECT count(*) FROM one.deliveries")[0][0] in (1, 2)

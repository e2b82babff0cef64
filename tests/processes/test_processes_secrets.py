"""A bot that fails in every way that we know of says nothing of what its users said, nor its secrets."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform
from tests.processes.process import SECRET, TOKEN, Stack, get, listen, on_both_stacks, start_bot

pytestmark = pytest.mark.processes

MARK = "xyzzy"
PHONE = "+989121234567"
WAYS = ("raise", "key", "chain", "step", "base", "foreign", "phone", "file", "filter", "/group", "plain")
STATUSES = (
    b"200 OK",
    b"302 Found",
    b"307 Temporary Redirect",
    b"400 Bad Request",
    b"404 Not Found",
    b"413 Too Large",
    b"500 Internal Server Error",
    b"403 Forbidden",
)


def odd_events() -> list[bytes]:
    """What isn't read, or only with pain, each with the mark and the phone number in it."""
    said = f"{MARK} {PHONE}"
    person = json.dumps({"id": "x" + PHONE, "name": MARK})
    return [
        urlencode({"chat_id": said, "type": "text", "data": said}).encode(),
        urlencode({"chat_id": 5, "type": said, "data": said, "from": said}).encode(),
        urlencode({"chat_id": 5, "type": "text", "data": said, "from": person}).encode(),
        urlencode({"chat_id": 5, "type": "contact", "data": said}).encode(),
        urlencode(
            {"chat_id": 5, "type": "contact", "data": json.dumps({"phone": PHONE, "name": MARK})}
        ).encode(),
        urlencode({"chat_id": 5, "type": "location", "data": json.dumps({"lat": said})}).encode(),
        urlencode({"chat_id": 5, "type": "triggerButton", "data": json.dumps({"data": said})}).encode(),
        urlencode({"chat_id": 5, "type": "submitForm", "data": said}).encode(),
        urlencode({"chat_id": 5, "type": "payCallback", "data": json.dumps({"ref_id": said})}).encode(),
        urlencode({"chat_id": 5, "type": "invoiceCallback", "data": said}).encode(),
        urlencode({"chat_id": 5, "type": "image", "data": said}).encode(),
        b"chat_id=5&type=text&data=" + MARK.encode() + b"%ff%fe",
        MARK.encode() * 100,
    ]


# What the log tells of, each once at least.
FAILURES = (
    "RuntimeError",
    "KeyError",
    "LookupError",
    "StepError",
    "ForeignTaskError",
    "ValueError",
    "ALARM token_refused",
    "the alarm hook failed",
    "can't be read",
)


@pytest.mark.slow
@on_both_stacks
async def test_nothing_that_was_said_and_no_secret_is_in_the_output(tmp_path: Path, stack: Stack) -> None:
    """Errors with the text in them, refusals that repeat the request, bad bodies, a stop."""
    log = tmp_path / "log"
    program = Path(__file__).parent / "leaky.py"
    async with open_platform() as platform:
        with listen() as sock:
            port = sock.getsockname()[1]
            process = await start_bot(
                "bot",
                module=program,
                stack=stack,
                platform=platform.url,
                store=tmp_path / "bot.db",
                sock=sock,
                arguments=["--grace", "1"],
                log=log,
            )
            users = Users(port, f"/{SECRET}")
            chat = 1000
            try:
                for echo in (False, True):
                    platform.echo = echo
                    for status in STATUSES:
                        platform.status = status
                        async with users.connect() as line:
                            for way in WAYS:
                                chat += 1
                                assert await users.say(line, chat, f"{way} {MARK} {PHONE}") == 200
                        await trio.sleep(0.15)
                for body in odd_events():
                    async with users.connect() as line:
                        secret, length = SECRET.encode(), len(body)
                        await line.stream.send_all(
                            b"POST /%s HTTP/1.1\r\nHost: bot\r\nReferer: http://bot/%s\r\n"
                            b"Content-Type: application/x-www-form-urlencoded\r\n"
                            b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                            % (secret, secret, length, body)
                        )
                        await line.message()
                for path in (f"/{SECRET}/{MARK}", f"/{SECRET[:-1]}", f"/?{SECRET}", f"/{SECRET}?{MARK}"):
                    await get(port, path)
                with trio.fail_after(PATIENCE):
                    while not all(failure in process.output for failure in FAILURES):
                        await trio.sleep(0.1)
                platform.dead = True
                async with users.connect() as line:
                    assert await users.say(line, 1, f"plain {MARK} {PHONE}") == 200
                await trio.sleep(0.2)
                assert await process.stop() == 0
            finally:
                process.popen.kill()

    output = process.output
    for hidden in (TOKEN, SECRET, SECRET[:-1], MARK, PHONE, PHONE[1:], quote(PHONE)):
        found = [line for line in output.splitlines() if hidden in line]
        assert not found, found[:3]

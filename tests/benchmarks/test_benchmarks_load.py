"""The load says what it sees: every event is answered once, in whatever pieces the answers come."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs

import pytest

from tests.benchmarks.load import _CHAT, Load, gap_event, telegram_event
from tests.benchmarks.processes import cpu_of, proportional_memory


@contextmanager
def echoing(load: Load, *, status: bytes = b"200 OK") -> Generator[int]:
    """A bot in a thread, of a connection or two: its answers come in two pieces."""
    listener = socket.create_server(("127.0.0.1", 0))
    platform = socket.create_connection(("127.0.0.1", int(load.url.rsplit(":", 1)[1])))

    def serve() -> None:
        with suppress(OSError), listener, platform:
            while True:
                line, _ = listener.accept()
                with line:
                    while data := line.recv(65536):
                        body = data.split(b"\r\n\r\n", 1)[1]
                        form = parse_qs(body)
                        if not form:
                            return
                        line.sendall(b"HTTP/1.1 " + status + b"\r\nContent-")
                        line.sendall(b"Length: 2\r\n\r\nok")
                        said = b"chat_id=" + form[b"chat_id"][0]
                        platform.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
                        platform.recv(65536)

    thread = threading.Thread(target=serve)
    thread.start()
    port = int(listener.getsockname()[1])
    try:
        yield port
    finally:
        load.close()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as end:
            end.sendall(b"\r\n\r\nend")
        thread.join()


def test_each_event_is_answered_and_echoed_once() -> None:
    """Of one connection there are four chats, which take turns."""
    load = Load()
    with echoing(load) as port:
        run = load.converse([port], gap_event, connections=1, each=3, first=1)

    assert run.done == len(run.acks) == len(run.echoes) == 12
    assert 0 < run.load <= 1.5


def test_an_event_that_is_refused_ends_the_run() -> None:
    """A system that fails is not a fast one."""
    load = Load()
    with echoing(load, status=b"503 Busy") as port, pytest.raises(RuntimeError, match="503"):
        load.converse([port], gap_event, connections=1, each=1, first=1)


@pytest.mark.parametrize(
    "body",
    [
        b"type=text&chat_id=17&data=x",
        b'{"chat_id":17,"text":"x"}',
        b'{"text": "x", "chat_id": "17"}',
        b'--b\r\nContent-Disposition: form-data; name="chat_id"\r\nContent-Type: text/plain'
        b"\r\n\r\n17\r\n--b--",
        b'--b\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\n17\r\n--b--',
    ],
)
def test_a_chat_is_found_in_whatever_form_a_client_sends(body: bytes) -> None:
    found = _CHAT.search(body)

    assert found is not None
    assert found[1] == b"17"


@pytest.mark.parametrize("event", [gap_event, telegram_event])
def test_an_event_is_as_long_as_it_says(event: object) -> None:
    assert callable(event)
    head, _, body = event(1000, 7).partition(b"\r\n\r\n")

    assert b"Content-Length: %d" % len(body) in head


def test_a_process_is_seen_from_outside() -> None:
    """As the kernel counts it."""
    before = cpu_of(os.getpid())
    while time.process_time() - before < 0.01:
        pass

    assert cpu_of(os.getpid()) == pytest.approx(time.process_time(), abs=0.01)
    assert proportional_memory(os.getpid()) > 1_000_000

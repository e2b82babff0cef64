"""Machines with a network of their own, whose cables can be pulled: network namespaces of Linux, as root.

A switch joins them and this machine, which has the database's address there, and the one of everything else.
Each namespace lives as long as a process in it, and that no longer than the tests' own. What is cut says
nothing: packets go nowhere, and connections stay.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, final

import attrs
import pytest
import trio

from tests.loopback import PATIENCE
from tests.processes.process import Place

_TOOLS: Final = ("ip", "bridge", "nsenter", "unshare", "setpriv")
_NOBODY: Final = "02:00:00:00:00:01"
"""A hardware address that no machine has."""


def why_no_machines() -> str | None:
    """Why there can be none here, or None."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(missing)} of iproute2 or util-linux isn't installed"
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        return "no network namespace can be made here"
    return None


needs_machines = pytest.mark.skipif(why_no_machines() is not None, reason=str(why_no_machines()))


@final
@attrs.frozen
class Machine:
    """One of them.

    Attributes:
        place: where a bot runs on it.
        cable: what the switch's end of its cable is called.
    """

    place: Place
    cable: str
    _process: int
    _network: Network

    def unplug(self) -> None:
        """Let nothing pass from it, nor to it."""
        self._network.at_switch("ip", "link", "set", self.cable, "nomaster")

    def plug(self) -> None:
        """Let everything pass again."""
        self._network.at_switch("ip", "link", "set", self.cable, "master", "switch", "up")

    def lose_database(self) -> None:
        """Let nothing of what it says reach the database."""
        neighbour = ("neighbour", "replace", self._network.database, "lladdr", _NOBODY)
        _run(self._process, "ip", *neighbour, "dev", "cable", "nud", "permanent")

    def find_database(self) -> None:
        """Let it reach the database again."""
        _run(self._process, "ip", "neighbour", "del", self._network.database, "dev", "cable")


@final
class Network:
    """A switch, and what is plugged into it.

    Attributes:
        here: the address of this machine there.
        database: another one, for the database alone.
    """

    def __init__(self, number: int, switch: int, machines: int) -> None:
        self._prefix = f"10.77.{number}"
        self._switch = switch
        self._count = machines
        self.here, self.database = f"{self._prefix}.1", f"{self._prefix}.2"
        self.machines: list[Machine] = []

    def lay(self, processes: Sequence[int], own: str) -> None:
        """Lay the cables: one to each of these processes' namespaces, and one to here."""
        self.at_switch("ip", "link", "add", "switch", "type", "bridge")
        self.at_switch("ip", "link", "set", "switch", "up")
        self.at_switch(
            "ip", "link", "add", "here", "type", "veth", "peer", "name", own, "netns", str(os.getpid())
        )
        self.at_switch("ip", "link", "set", "here", "master", "switch", "up")
        for address in (self.here, self.database):
            _run(None, "ip", "address", "add", f"{address}/24", "dev", own)
        _run(None, "ip", "link", "set", own, "up")
        for number, process in enumerate(processes):
            cable, address = f"to{number}", f"{self._prefix}.{11 + number}"
            link = (
                "ip",
                "link",
                "add",
                cable,
                "type",
                "veth",
                "peer",
                "name",
                "cable",
                "netns",
                str(process),
            )
            self.at_switch(*link)
            self.at_switch("ip", "link", "set", cable, "master", "switch", "up")
            _run(process, "ip", "address", "add", f"{address}/24", "dev", "cable")
            for name in ("cable", "lo"):
                _run(process, "ip", "link", "set", name, "up")
            within = ("nsenter", "--net", "--target", str(process))
            environ = {"TRIOBOT_DOOR": f"{address}:7300"}
            self.machines.append(Machine(Place(address, within, environ), cable, process, self))

    def part(self) -> None:
        """Let nothing pass from one machine to another; to here and back it does."""
        self._isolate("on")

    def join(self) -> None:
        """Let it pass again."""
        self._isolate("off")

    def _isolate(self, how: str) -> None:
        for machine in self.machines:
            self.at_switch("bridge", "link", "set", "dev", machine.cable, "isolated", how)

    def at_switch(self, *command: str) -> None:
        """Run a command in the switch's namespace."""
        _run(self._switch, *command)


def _cable(here: str, there: str, process: int) -> Sequence[str]:
    return ("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(process))


def _run(process: int | None, *command: str) -> None:
    within = () if process is None else ("nsenter", "--net", "--target", str(process))
    subprocess.run([*within, *command], check=True, capture_output=True)


@contextmanager
def network_of(machines: int) -> Generator[Network]:
    """A network of so many machines."""
    # One for each worker that runs tests, and one for a run by hand.
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw254").removeprefix("gw"))
    with ExitStack() as stack:
        switch, *others = (stack.enter_context(_namespace()) for _ in range(machines + 1))
        network = Network(number, switch, machines)
        network.lay(others, f"triobot{number}")
        yield network


@contextmanager
def _namespace() -> Generator[int]:
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
    with subprocess.Popen(command) as process:
        try:
            ours = Path("/proc/self/ns/net").readlink()
            until = time.monotonic() + PATIENCE
            while Path(f"/proc/{process.pid}/ns/net").readlink() == ours:
                assert time.monotonic() < until
                time.sleep(0.002)
            yield process.pid
        finally:
            process.kill()


@asynccontextmanager
async def forwarding(address: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Carry what comes to a free port of this address on to a port of loopback; yields the first one.

    Args:
        tls: what comes is encrypted; it is carried on in clear.
    """

    async def carry(outer: trio.SocketStream) -> None:
        # As PostgreSQL does: whoever doesn't answer for two seconds is gone.
        outer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000)
        for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
            outer.socket.setsockopt(socket.IPPROTO_TCP, option, value)
        outer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        clear = outer if tls is None else trio.SSLStream(outer, tls, server_side=True, https_compatible=True)
        with suppress(OSError):
            async with await trio.open_tcp_stream("127.0.0.1", port) as inner, trio.open_nursery() as both:
                both.start_soon(_pump, clear, inner, both.cancel_scope)
                both.start_soon(_pump, inner, clear, both.cancel_scope)
        await trio.aclose_forcefully(outer)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=address)
        nursery.start_soon(partial(trio.serve_listeners, carry, listeners))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _pump(source: trio.abc.Stream, sink: trio.abc.Stream, both: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError):
        while data := await source.receive_some(65536):
            await sink.send_all(data)
    both.cancel()

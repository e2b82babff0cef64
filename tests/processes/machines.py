"""Machines with a network of their own, whose cables can be pulled: network namespaces of Linux, as root.

A switch joins them, and has two addresses: what comes there for the database, or for the platform, is carried
on by the tests' own process.
Each namespace lives as long as a process in it, and that no longer than the tests' own. What is cut says
nothing: packets go nowhere, and connections stay.
"""

from __future__ import annotations

import ctypes
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
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
_NETWORKS: Final = 0x40000000
"""CLONE_NEWNET."""
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
        machines: so many have a cable to it.
        within: what a command begins with that reaches them, and this machine's files.
    """

    here: Final = "10.77.0.1"
    """The switch's own address: what listens there does so in this process."""
    database: Final = "10.77.0.2"
    """Another one, for the database alone."""

    def __init__(self, switch: int) -> None:
        self._switch = switch
        self.machines: list[Machine] = []
        self.within = _within(switch)

    def lay(self, processes: Sequence[int]) -> None:
        """Lay the cables to each of these processes' namespaces."""
        self.at_switch("ip", "link", "add", "switch", "type", "bridge")
        for name in ("lo", "switch"):
            self.at_switch("ip", "link", "set", name, "up")
        for address in (self.here, self.database):
            self.at_switch("ip", "address", "add", f"{address}/24", "dev", "switch")
        for number, process in enumerate(processes):
            cable, address = f"to{number}", f"10.77.0.{11 + number}"
            ends = ("type", "veth", "peer", "name", "cable", "netns", str(process))
            self.at_switch("ip", "link", "add", cable, *ends)
            self.at_switch("ip", "link", "set", cable, "master", "switch", "up")
            _run(process, "ip", "address", "add", f"{address}/24", "dev", "cable")
            for name in ("cable", "lo"):
                _run(process, "ip", "link", "set", name, "up")
            environ = {"TRIOBOT_DOOR": f"{address}:7300"}
            place = Place(address, _within(process), environ, self.connect)
            self.machines.append(Machine(place, cable, process, self))

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        """Connect to a machine."""
        dial = partial(socket.create_connection, (host, port), timeout=1)
        dialed = await trio.to_thread.run_sync(self.made_there, dial)
        return trio.SocketStream(trio.socket.from_stdlib_socket(dialed))

    def made_there(self, make: Callable[[], socket.socket]) -> socket.socket:
        """Return a socket that was made in the switch's namespace, and so belongs there."""
        made: list[socket.socket | OSError] = []

        def enter() -> None:
            try:
                with Path(f"/proc/{self._switch}/ns/net").open() as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NETWORKS):
                        raise OSError(ctypes.get_errno(), "the switch's namespace can't be entered")
                made.append(make())
            except OSError as error:
                made.append(error)

        # A thread alone enters it, and ends there.
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        (found,) = made
        if isinstance(found, OSError):
            raise found
        return found

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


def _within(process: int) -> Sequence[str]:
    return ("nsenter", "--net", "--target", str(process))


def _run(process: int, *command: str) -> None:
    subprocess.run([*_within(process), *command], check=True, capture_output=True)


@contextmanager
def network_of(machines: int) -> Generator[Network]:
    """A network of so many machines; this one's own network doesn't change, which programs would notice."""
    with ExitStack() as stack:
        switch, *others = (stack.enter_context(_namespace()) for _ in range(machines + 1))
        network = Network(switch)
        network.lay(others)
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
async def forwarding(
    network: Network, address: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[int]:
    """Carry what comes to a free port of the switch on to a port of loopback; yields the first one.

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
        listening = network.made_there(partial(socket.create_server, (address, 0)))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        nursery.start_soon(partial(trio.serve_listeners, carry, [listener]))
        yield listening.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _pump(source: trio.abc.Stream, sink: trio.abc.Stream, both: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError):
        while data := await source.receive_some(65536):
            await sink.send_all(data)
    both.cancel()

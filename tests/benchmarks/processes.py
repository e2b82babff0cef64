"""Processes of systems under test: started, watched, stopped; and what the kernel says of them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import attrs

from .load import Load


@attrs.frozen
class Running:
    """A system that answers.

    Attributes:
        pid: its process.
        port: where its webhook is.
        start_cpu: CPU seconds until it listened.
        start_seconds: the time until then.
        beside: its other processes.
        database: the first process of its database's server, if it has one.
    """

    pid: int
    port: int
    start_cpu: float
    start_seconds: float
    beside: tuple[Running, ...] = ()
    database: int | None = None

    @property
    def ports(self) -> tuple[int, ...]:
        """Where all its processes listen."""
        return (self.port, *(other.port for other in self.beside))

    @property
    def cpu(self) -> float:
        """CPU seconds that its processes and their threads have used."""
        return cpu_of(self.pid) + sum(other.cpu for other in self.beside)

    @property
    def database_cpu(self) -> float:
        """CPU seconds of its database's processes."""
        return 0.0 if self.database is None else family_cpu(self.database)

    @property
    def megabytes(self) -> float:
        """Memory that is its own, and its share of what it shares."""
        return proportional_memory(self.pid) / 1e6 + sum(other.megabytes for other in self.beside)


def family_cpu(pid: int) -> float:
    """CPU seconds of a process and its children, of those that have ended, too."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(cpu_of, [pid, *map(int, children)])) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """CPU seconds that a process and all its threads have used, ended ones too, to the nanosecond.

    What clock_getcpuclockid(3) makes of a pid; /proc/PID/stat counts in hundredths of a second.
    """
    return time.clock_gettime(((~pid) << 3) | 2)


def proportional_memory(pid: int) -> int:
    """Bytes of memory, PSS."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel doesn't tell of memory")


def take_sides() -> set[int]:
    """Keep this process on one core, and return those that are left for systems; all if there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[-1]})
        # One core for each system: what a thread beside the event loop costs is to be seen.
        return {cores[0]}
    return set(cores)


@contextlib.contextmanager
def running(name: str, command: Sequence[str], port: int, load: Load, cores: set[int]) -> Generator[Running]:
    """Start a system, wait until it listens, and stop it at the end.

    Raises:
        RuntimeError: it does not start; with the end of what it said.
    """
    with tempfile.TemporaryFile() as said:
        began = time.monotonic()
        root = Path(__file__).parents[2]
        # With bytecode, as users start it: written by the first start of each system, and then used.
        bytecode = str(Path(tempfile.gettempdir()) / "triobot-benchmarks-bytecode")
        environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=root, env=environment)
        try:
            os.sched_setaffinity(process.pid, cores)
            deadline = began + 60
            while not _listens(port):
                load.turn(0.02)  # a framework may ask its platform something before it listens
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise RuntimeError(
                        f"{name} did not start: {said.read()[-2000:].decode(errors='replace')}"
                    )
            yield Running(process.pid, port, cpu_of(process.pid), time.monotonic() - began)
        finally:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                load.until(lambda: process.poll() is not None, 15)
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

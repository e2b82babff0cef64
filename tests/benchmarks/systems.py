"""The systems that are compared, each by its name in the tables."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs

from tests.loopback import free_port
from tests.postgres import Server, run_server, why_not

from .installing import (
    AIOGRAM,
    AIOHTTP,
    CONVERSATIONS,
    GRAMMY,
    PEERS,
    TELEGRAM,
    Environment,
    installed,
    program,
)
from .load import SECRET, TOKEN, Dialect, Load, gap_event, telegram_event
from .processes import Running, running


@attrs.frozen
class System:
    """A system under test.

    Attributes:
        program: its file among the peers.
        arguments: behind the port, the platform, the secret and the token.
        environment: what it needs; None: nothing besides triobot's own environment.
        keeps: what outlives its process, in a few words.
        nodes: its processes, which share a store.
    """

    name: str
    program: str
    arguments: tuple[str, ...]
    event: Dialect
    keeps: str
    environment: Environment | None = None
    nodes: int = 1


TRIOBOT: Final = System(
    "triobot", "triobot_echo", ("new", "sqlite"), gap_event, "every event and conversation"
)
SERVED: Final = attrs.evolve(TRIOBOT, name="triobot, PostgreSQL", arguments=("new", "postgres"))
TWO: Final = attrs.evolve(SERVED, name="triobot, PostgreSQL, two nodes", nodes=2)
ONE: Final = attrs.evolve(TRIOBOT, name="triobot, one conversation", arguments=("one", "sqlite"))
IN_MEMORY: Final = System("triobot, in memory", "triobot_echo", ("new", "memory"), gap_event, "nothing")
FLOOR: Final = System("Trio and httptools alone", "floor_echo", ("echo",), gap_event, "nothing")
DESIGN: Final = System("the floor of the design", "design_floor_echo", ("sqlite",), gap_event, "every event")
BARE: Final = System("aiohttp alone", "aiohttp_echo", ("echo",), gap_event, "nothing", AIOHTTP)
FRAMEWORK: Final = System("aiogram", "aiogram_echo", (), telegram_event, "nothing", AIOGRAM)
PTB: Final = System(
    "python-telegram-bot", "python_telegram_bot_echo", (), telegram_event, "nothing", TELEGRAM
)
NODE: Final = System("grammY (Node)", "grammy_echo", (), telegram_event, "nothing", GRAMMY)

STOCK_IN: Final = attrs.evolve(
    TRIOBOT, name="hypercorn and Quart in", program="triobot_stock", arguments=("in", "sqlite")
)
STOCK_BOTH: Final = attrs.evolve(STOCK_IN, name="both", arguments=("both", "sqlite"))

ECHO: Final = (
    TRIOBOT,
    SERVED,
    TWO,
    ONE,
    IN_MEMORY,
    attrs.evolve(STOCK_IN, name="triobot, hypercorn and quart-trio in"),
    attrs.evolve(STOCK_BOTH, name="triobot, and httpx out"),
    *(FRAMEWORK, PTB, NODE, BARE, DESIGN, FLOOR),
    attrs.evolve(FLOOR, name="Trio and httptools in, httpx out", arguments=("httpx",)),
)
SHORT: Final = (TRIOBOT, SERVED, TWO, IN_MEMORY, FRAMEWORK, PTB, NODE, BARE, DESIGN, FLOOR)
ACKNOWLEDGING: Final = (TRIOBOT, FRAMEWORK, NODE, BARE, FLOOR)
INBOUND: Final = (
    attrs.evolve(TRIOBOT, name="triobot, stored and answered", arguments=("nobody", "sqlite")),
    attrs.evolve(TRIOBOT, name="triobot, and a conversation", arguments=("silent", "sqlite")),
    attrs.evolve(IN_MEMORY, name="triobot, in memory", arguments=("nobody", "memory")),
    attrs.evolve(STOCK_IN, name="triobot, stored, by hypercorn and Quart", arguments=("nobody", "sqlite")),
    System("quart-trio alone, by hypercorn", "hypercorn_silent", ("quart",), gap_event, "nothing"),
    System("hypercorn alone", "hypercorn_silent", ("bare",), gap_event, "nothing"),
    attrs.evolve(BARE, arguments=("silent",)),
    attrs.evolve(FLOOR, arguments=("silent",)),
)
ASKING: Final = (
    attrs.evolve(TRIOBOT, arguments=("ask", "sqlite")),
    attrs.evolve(SERVED, arguments=("ask", "postgres")),
    attrs.evolve(TWO, arguments=("ask", "postgres")),
    attrs.evolve(IN_MEMORY, arguments=("ask", "memory")),
    attrs.evolve(FRAMEWORK, name="aiogram, its FSM in memory", program="aiogram_fsm"),
    System(
        "grammY conversations (Node)",
        "grammy_conversations",
        (),
        telegram_event,
        "nothing",
        CONVERSATIONS,
    ),
)
STOCK: Final = (
    TRIOBOT,
    attrs.evolve(STOCK_IN, name="httpx out", arguments=("out", "sqlite")),
    STOCK_IN,
    STOCK_BOTH,
)


@contextmanager
def all_running(
    systems: Sequence[System], load: Load, *, peers: Path | None, stores: Path, cores: set[int]
) -> Generator[dict[System, Running]]:
    """Start those that can be had, one after the other; they stop at the end."""
    with ExitStack() as stack:
        there: dict[System, Running] = {}
        server = None
        if any("postgres" in system.arguments for system in systems) and why_not() is None:
            server = stack.enter_context(run_server())
        for system in systems:
            served = "postgres" in system.arguments
            command = command_of(system, peers)
            if command is None or (served and server is None):
                continue
            store, nodes = free_port(), list[Running]()
            for _ in range(system.nodes):
                port = free_port()
                extra = [_store(argument, stores, store, server) for argument in system.arguments]
                whole = [*command, str(port), load.url, SECRET, TOKEN, *extra]
                nodes.append(stack.enter_context(running(system.name, whole, port, load, cores)))
            database = None if server is None or not served else first_of(server)
            there[system] = attrs.evolve(nodes[0], beside=tuple(nodes[1:]), database=database)
        yield there


def first_of(server: Server) -> int:
    """The server's first process, whose children do the work."""
    return int((server.folder / "postmaster.pid").read_text().split()[0])


def command_of(system: System, peers: Path | None) -> list[str] | None:
    """How it is started, up to the arguments of all; None if it can't be had. Without `peers` none can."""
    if system.environment is None:
        return [sys.executable, str(PEERS / f"{system.program}.py")]
    command = None if peers is None else installed(system.environment, peers)
    return None if command is None else program(command, system.program)


def _store(argument: str, stores: Path, number: int, server: Server | None) -> str:
    if argument == "postgres" and server is not None:
        return server.url(query=f"schema=of_{number}")
    return {"sqlite": f"sqlite:{stores}/{number}.db", "memory": "memory:"}.get(argument, argument)

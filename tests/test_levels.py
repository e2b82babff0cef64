"""Who may import whom: the house has levels, and a module imports from below or from its own package."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FAST_WAYS

HOUSE = Path(__file__).parents[1] / "triobot"
MODULES = sorted(HOUSE.rglob("*.py"))

WIRE = {"errors", "wire"}
SEAMS = (
    WIRE
    | {"authors"}
    | {"alarm_kinds", "fields", "money", "values", "resources", "journals", "seams", "secrets"}
    | {"clock", "rooms", "patience"}
)
HTTP = SEAMS | {"http", "binding", "limits", "own_http"}
# A store is below whatever keeps something in it.
STORE = SEAMS | {"store"}
L3 = {"webhook", "conversations", "outbox", "client", "operator", "payments"}
BOT = HTTP | STORE | L3 | {"engine", "exact", "alarms", "alarm_targets", "logs", "settings"}
BOT |= {"runtime", "holding"}

# What each part of the house may import of it besides itself.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "authors": {"errors"},
    "frozen": set(),
    "extras": {"errors"},
    "endings": set(),
    "secrets": set(),
    "clock": set(),
    "lines": set(),
    "file_locks": set(),
    "open_files": set(),
    "wire": {"errors"},
    "fields": set(),
    "values": {"authors", "errors", "fields"},
    "resources": {"authors", "errors"},
    "journals": WIRE,
    "rooms": WIRE,
    "patience": {"errors"},
    "alarm_kinds": set(),
    "money": WIRE | {"alarm_kinds", "journals"},
    "seams": WIRE | {"alarm_kinds", "journals", "money"},
    "alarms": STORE,
    "alarm_targets": HTTP | STORE,
    "logs": SEAMS,
    "settings": {"errors", "secrets", "webhook"},
    "binding": {"errors"},
    "limits": {"errors"},
    "http": {"errors", "binding", "limits"},
    "own_http": {"http"},
    "store": SEAMS | {"extras", "file_locks", "open_files", "version"},
    **dict.fromkeys(L3, STORE),
    "client": HTTP,
    "webhook": HTTP | STORE,
    "operator": HTTP | STORE | {"open_files"},
    # A durable coroutine knows no chats, stores or platforms.
    "engine": {"authors", "errors"},
    # Nor does what compares an author's sources.
    "exact": set(),
    # A conversation is what a journal makes of a coroutine; nobody else knows of journals.
    "conversations": STORE | {"engine", "exact", "payments"},
    "emulator": SEAMS,
    "filters": {"conversations"},
    # Loaded by a developer's bot only.
    "studio": STORE | {"conversations", "engine"},
    "runtime": BOT | {"broadcast", "extras", "tracing"},
    # Loaded by bots only whose spans somebody wants.
    "tracing": STORE | {"conversations", "engine", "logs", "webhook"},
    "watchdog": BOT,
    "broadcast": STORE | {"conversations", "outbox"},
    "fronts": BOT,
    "failures": BOT,
    # What begins only while a process has its store.
    "holding": SEAMS | {"conversations"},
    # What works while this process has it, and takes events in meanwhile.
    "standby": BOT,
    "together": BOT | {"watchdog", "endings"},
    "bot": BOT | {"broadcast", "failures", "fronts", "standby", "together", "watchdog"},
    "surface": BOT | {"broadcast", "bot", "extras", "failures", "filters"},
    "__init__": {"surface"},
    "version": set(),
    # Written as bots are, on what a bot may import.
    "widgets": {"__init__", "errors", "extras"},
    "cli": BOT
    | {
        "bot",
        "broadcast",
        "extras",
        "filters",
        "emulator",
        "testing",
        "together",
        "travel",
        "__init__",
        "endings",
    }
    | {"lines", "file_locks", "watchdog"},
    "__main__": {"cli"},
    "testing": BOT | {"bot", "broadcast", "emulator", "__init__"},
    # What was, seen again: it runs journals as the bot does, and branches as a test does.
    "travel": BOT | {"bot", "broadcast", "emulator", "testing", "__init__", "lines"},
}

# A codec that knew of a network, a clock or a file would no longer be one.
SANS_IO = frozenset({"attrs", "typing_extensions"})
WAITS = frozenset(
    {"asyncio", "http", "select", "selectors", "socket", "socketserver", "subprocess", "threading"}
)


def part_of(module: Path) -> str:
    """The package or the module directly under triobot that this file belongs to."""
    return module.relative_to(HOUSE).with_suffix("").parts[0]


def absolute_imports(module: Path) -> Iterator[str]:
    """Every module that this one imports, wherever in it, by its absolute name."""
    package = ["triobot", *module.relative_to(HOUSE).parent.parts]
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *((node.module or "").split(".") if node.module else [])]
            if base == ["triobot"]:
                yield from (f"triobot.{alias.name}" for alias in node.names)
            else:
                yield ".".join(base)


def parts_imported(module: Path) -> set[str]:
    """The parts of the house that this module imports."""
    found: set[str] = set()
    for name in absolute_imports(module):
        root, _, rest = name.partition(".")
        if root == "triobot" and rest not in ("__version__", "version"):
            part = rest.partition(".")[0]
            known = (HOUSE / part).is_dir() or (HOUSE / f"{part}.py").is_file()
            found.add(part if part and known else "__init__")
    return found


def named(module: Path) -> str:
    return str(module.relative_to(HOUSE))


def test_the_walk_sees_every_module() -> None:
    """A walk over nothing would prove nothing."""
    assert {"errors", "wire", "seams", "conversations", "bot", "cli"} <= {
        part_of(module) for module in MODULES
    }
    assert "wire" in parts_imported(HOUSE / "seams.py")


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted({*map(part_of, MODULES)}))
def test_a_module_imports_from_below(part: str) -> None:
    """Never sideways, never up: packages of one level meet through `wire` and `seams` only.

    Whoever makes values has `frozen`.
    """
    assert part in ALLOWED, "give this part of the house a level"
    below = ALLOWED[part] | {part, "frozen"}
    imported = {named(module): parts_imported(module) for module in MODULES if part_of(module) == part}
    assert {module: parts - below for module, parts in imported.items() if not parts <= below} == {}


@pytest.mark.parametrize("module", sorted((HOUSE / "wire").rglob("*.py")), ids=named)
def test_the_codec_knows_no_network(module: Path) -> None:
    """`wire` imports the standard library, attrs and typing_extensions; and nothing that can wait."""
    roots = {name.partition(".")[0] for name in absolute_imports(module)} - {"triobot"}

    assert roots <= sys.stdlib_module_names | SANS_IO
    assert not roots & WAITS


@pytest.mark.parametrize("way", FAST_WAYS)
def test_a_fast_way_is_known_in_one_place(way: str) -> None:
    """What is there for speed alone can be deleted: hardly anything knows of it."""
    names = (f"triobot.{way}", f"triobot.{way}.")
    part = HOUSE.joinpath(*way.split("."))
    knowing = [
        named(module)
        for module in MODULES
        if part not in (module.with_suffix(""), *module.parents)
        and any(name == names[0] or name.startswith(names[1]) for name in absolute_imports(module))
    ]
    assert knowing == sorted(FAST_WAYS[way])


def test_a_module_is_read_in_one_sitting() -> None:
    """Bound a module by 900 lines: room for one class with all its state, and for nothing beside it."""
    lines = {named(module): len(module.read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert {module: count for module, count in lines.items() if count > 900} == {}


def loaded_by(code: str) -> set[str]:
    """What a process of its own has loaded after this."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(told.stdout.split())


BOT_FILE = """
from triobot import Bot, Chat
from triobot.filters import command

bot = Bot()


@bot.conversation
async def greet(chat: Chat) -> None:
    await chat.send("Hello.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled.")
"""


@pytest.mark.slow
def test_a_bot_file_loads_nothing_that_only_a_run_needs() -> None:
    """Tools import it, and tests by the hundred: it declares, and costs no store, ledger, outbox or HTTP."""
    names = loaded_by(BOT_FILE)

    assert "triobot.bot" in names
    parts = {".".join(name.split(".")[:2]) for name in names if name.startswith("triobot.")}
    runs = ("runtime", "together", "store", "outbox", "payments", "client", "operator", "watchdog", "fronts")
    assert not parts & {f"triobot.{part}" for part in (*runs, "broadcast", "emulator", "testing", "cli")}
    assert {name for name in names if name.startswith(("triobot.http", "triobot.webhook"))} == {
        "triobot.webhook",
        "triobot.webhook.limits",
    }
    assert not names & {"httpx", "httptools", "sqlite3", "cronsim", "quart", "hypercorn", "cattrs", "PIL"}


@pytest.mark.slow
def test_a_bot_loads_no_emulator() -> None:
    """Neither the surface nor the runtime pulls in what is there for development, whatever imports what."""
    names = loaded_by("import triobot.together; from triobot import Bot")

    assert "triobot.bot" in names
    assert not {"triobot.emulator", "triobot.studio", "triobot.cli", "PIL"} & {
        ".".join(name.split(".")[:2]) for name in names
    }
    # Nor those that are there for bots inside of another's server only.
    assert not {"quart", "quart_trio", "hypercorn", "flask"} & set(names)

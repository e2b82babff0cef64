"""Allowed imports: the package has levels, and a module imports from lower levels or its own package."""

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

# Each level imports from lower levels. `base` depends on nothing of a bot; `seams` has shared values and
# protocols.
BASE = {"base", "errors"}
SEAMS = BASE | {"wire", "seams"}
HTTP = SEAMS | {"http"}
# A store is below all packages that store rows.
STORE = SEAMS | {"store"}
PARTS = {"webhook", "conversations", "outbox", "client", "operator", "payments", "alarms"}
RUNTIME = HTTP | STORE | PARTS | {"engine", "exact", "runtime", "filters"}

# The parts of the package that each part may import, besides itself.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "base": {"errors"},
    "wire": BASE,
    "http": BASE,
    "seams": BASE | {"wire", "http"},
    "store": SEAMS,
    **dict.fromkeys(PARTS, STORE),
    "client": HTTP,
    "webhook": HTTP | STORE,
    "operator": HTTP | STORE,
    # The engine doesn't depend on chats, stores or platforms.
    "engine": BASE,
    # `exact` compares sources, and depends on no code that runs a bot.
    "exact": BASE,
    # Only `conversations` may use the engine and its journals.
    "conversations": STORE | {"engine", "exact", "payments"},
    "emulator": SEAMS,
    "filters": {"conversations"},
    "runtime": RUNTIME,
    "__init__": {"base", "runtime"},
    # Widgets import only names that a bot may import.
    "widgets": {"__init__", "base", "errors"},
    # Only development commands load `studio`: advice for authors, and time travel.
    "studio": RUNTIME | {"cli", "emulator", "testing", "__init__"},
    "testing": RUNTIME | {"emulator", "__init__"},
    "cli": RUNTIME | {"__init__"},
    "__main__": {"cli"},
}

# `wire` is a codec, and so imports nothing for networks, clocks or files.
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
        if root == "triobot" and rest != "__version__":
            part = rest.partition(".")[0]
            known = (HOUSE / part).is_dir() or (HOUSE / f"{part}.py").is_file()
            found.add(part if part and known else "__init__")
    return found


def named(module: Path) -> str:
    return str(module.relative_to(HOUSE))


def test_the_walk_sees_every_module() -> None:
    """A walk over nothing would prove nothing."""
    assert {"base", "wire", "seams", "conversations", "runtime", "cli"} <= set(map(part_of, MODULES))
    assert "wire" in parts_imported(HOUSE / "seams" / "writes.py")


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted({*map(part_of, MODULES)}))
def test_a_module_imports_from_below(part: str) -> None:
    """Never sideways, never up: packages of one level meet through `wire` and `seams` only."""
    assert part in ALLOWED, "give this part of the house a level"
    below = ALLOWED[part] | {part}
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

    assert "triobot.runtime.bot" in names
    parts = {".".join(name.split(".")[:2]) for name in names if name.startswith("triobot.")}
    runs = ("store", "outbox", "payments", "client", "operator", "alarms", "emulator", "testing", "cli")
    assert not parts & {f"triobot.{part}" for part in runs}
    puts_together = ("work", "serve", "watchdog", "asgi", "broadcast", "standby")
    assert not names & {f"triobot.runtime.{module}" for module in puts_together}
    assert {name for name in names if name.startswith(("triobot.http", "triobot.webhook"))} == {
        "triobot.webhook",
        "triobot.webhook.limits",
    }
    assert not names & {"httpx", "httptools", "sqlite3", "cronsim", "quart", "hypercorn", "cattrs", "PIL"}


@pytest.mark.slow
def test_a_bot_loads_no_emulator() -> None:
    """Neither the surface nor the runtime pulls in what is there for development, whatever imports what."""
    names = loaded_by("import triobot.runtime.serve; from triobot import Bot")

    assert "triobot.runtime.bot" in names
    assert not {"triobot.emulator", "triobot.studio", "triobot.cli", "PIL"} & {
        ".".join(name.split(".")[:2]) for name in names
    }
    # A bot also loads no packages for bots that run inside of another server.
    assert not {"quart", "quart_trio", "hypercorn", "flask"} & set(names)

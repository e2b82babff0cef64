"""Code that a conversation imports only when it gets there is compared like all other code."""

from __future__ import annotations

import importlib
import linecache
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from doubles import FakeOutbox, FakeStore
from town import open_town
from trio.testing import MockClock

from triobot.conversations.revival import code as code_module
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router

SHOP = """async def order(chat):
    from late_helper import both

    name, city = await both(chat)
    await chat.send(f"{name} of {city}")
"""
ASKS = '    name = await chat.ask("Name?")\n', '    city = await chat.ask("City?")\n'
HELPER = "async def both(chat):\n{}{}    return name, city\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules, which are all of the author's."""
    loaded = code_module.loaded_modules
    monkeypatch.setattr(
        code_module, "loaded_modules", lambda: (one for one in loaded() if one[1].startswith(str(tmp_path)))
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    _forget(tmp_path)


def _forget(folder: Path) -> None:
    for name in ("late_shop", "late_helper"):
        sys.modules.pop(name, None)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    linecache.clearcache()
    importlib.invalidate_caches()


def deployed(folder: Path, files: Mapping[str, str]) -> Router:
    """Put modules in the place of those before, as a new process has them."""
    _forget(folder)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    router = Router()
    router.conversation(text())(importlib.import_module("late_shop").order)
    return router


async def goes_on(folder: Path, helper: str) -> tuple[list[object], bool]:
    """Answer one question, deploy a helper, and answer the next; return what was sent, and who is parked."""
    store, outbox = FakeStore(), FakeOutbox()
    for source, said in ((HELPER.format(*ASKS), ("hi", "Ann")), (helper, ("Shiraz",))):
        router = deployed(folder, {"late_shop": SHOP, "late_helper": source})
        async with open_town(router, store=store, outbox=outbox, code=True) as town:
            for words in said:
                await town.says(words)
            sent, rows = town.sent(), store.journals.conversations(5)
    return sent, any(row.parked_because for row in rows)


async def test_what_is_imported_late_and_swapped_is_parked(autojump_clock: MockClock, folder: Path) -> None:
    _, is_parked = await goes_on(folder, HELPER.format(*reversed(ASKS)))

    assert is_parked


async def test_what_is_imported_late_and_reworded_goes_on(autojump_clock: MockClock, folder: Path) -> None:
    sent, _ = await goes_on(folder, HELPER.format(*ASKS).replace("City?", "Which city?"))

    assert sent == ["Name?", "City?", "Ann of Shiraz"]


async def test_what_is_imported_late_and_unchanged_is_one_build(
    autojump_clock: MockClock, folder: Path
) -> None:
    store = FakeStore()
    files = {"late_shop": SHOP, "late_helper": HELPER.format(*ASKS)}
    for said in ("hi", "Ann"):
        async with open_town(deployed(folder, files), store=store, code=True) as town:
            await town.says(said)

    assert len({one.build for one in store.journals.code.code().deployed}) == 1

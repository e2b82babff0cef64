"""The code in docs/ is code: it is formatted, fits its types, and does what it says.

A page's first block is what all others of the page follow. Each of them is imported as a module of its own;
its bot's declarations are read, and its tests are run. Blocks are told apart by their first line: `python` is
ours; `py` and `ts` are how other libraries do it, which is shown and not run.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.docs.writing import SHOWN
from triobot import Bot, Chat
from triobot.conversations.routes.router import table_of
from triobot.testing import DrivenWorld, run

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((ROOT / "docs").rglob("*.md"))
TRANSLATED: Final = ROOT / "docs" / "fa"  # their code is that of their sources: `test_translations`

LINKED: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md")

# Attributes of instances, files, and what grammY has.
OTHERS: Final = {"alarms", "py", "hears", "catch"}

# Other libraries' code: the line before it says whose it is.
PEERS: Final = "aiogram|python-telegram-bot|grammY"
THEIRS: Final = re.compile(rf"(?ms)^(?:{PEERS})(?:, [^\n]*)?:\n\n```(?:py|ts)\n(.*?)^```\n")


def blocks(page: Path) -> list[str]:
    """A page's modules."""
    found = re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text(encoding="utf-8"))
    return [f"{found[0]}\n\n{block}" for block in found[1:]]


MODULES: Final = {
    f"docs_{page.stem.replace('-', '_')}_{number}": block
    for page in PAGES
    if not page.is_relative_to(TRANSLATED)
    for number, block in enumerate(blocks(page), 1)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the blocks are files."""
    for name, block in MODULES.items():
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


def imported(folder: Path, name: str) -> ModuleType:
    """A block, as a module."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_is_python(page: Path) -> None:
    """Also that of a page that has one block only."""
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text(encoding="utf-8")):
        compile(block, page.name, "exec")


@pytest.mark.parametrize("name", MODULES)
def test_the_code_runs(folder: Path, name: str) -> None:
    module = imported(folder, name)
    if re.search(r"\bBot\(", MODULES[name]):
        assert isinstance(module.bot, Bot)
    if re.search(r"@\w+\.(?:conversation|interrupt|aside|room|every)\b", MODULES[name]):
        table_of(module.bot)
    for test in [test for name, test in vars(module).items() if name.startswith("test_")]:
        run(test)


@pytest.mark.apart
def test_the_code_fits_its_types(folder: Path) -> None:
    api = pytest.importorskip("mypy.api")
    arguments = ["--strict", "--python-version=3.11", "--cache-dir", str(ROOT / ".mypy_cache" / "docs")]
    said, failed, status = api.run([*arguments, *(f"{name}.py" for name in MODULES)])

    assert (status, failed) == (0, ""), said


def anchors(page: Path) -> set[str]:
    """Return where a page can be entered, as a forge and the site name it."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"(?m)^#+ (.*)$", text)
    }


def test_links_lead_somewhere() -> None:
    broken: list[tuple[str, str]] = []
    for page in (*PAGES, *(ROOT / name for name in LINKED)):
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            there = page.parent / path if path else page
            if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
                broken.append((str(page.relative_to(ROOT)), link))
    assert broken == []


def test_what_pages_name_of_the_tests_and_the_package_exists() -> None:
    """Such as `tests/store` or `outbox/lanes`, and each single test."""
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    packages = "|".join(folder.name for folder in (ROOT / "triobot").iterdir() if folder.is_dir())
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"`(test_\w+)`", text)) <= tests, page.name
        for path in re.findall(r"`(tests/[\w/.]+)`", text):
            assert (ROOT / path).exists(), (page.name, path)
        for path in re.findall(rf"`((?:{packages})/[\w/]+)`", text):
            module = ROOT / "triobot" / path
            assert module.is_dir() or module.with_suffix(".py").exists(), (page.name, path)


def test_what_is_named_in_passing_exists() -> None:
    """Such as `chat.send` in a sentence or a table."""
    for page in (*PAGES, ROOT / "README.md"):
        text = THEIRS.sub("", page.read_text(encoding="utf-8"))
        for name, cls in (("chat", Chat), ("bot", Bot), ("world", DrivenWorld)):
            named = set(re.findall(rf"(?<![\w/.\"']){name}\.([a-z_]+)", text))
            assert {one for one in named if not hasattr(cls, one)} <= OTHERS, page.name


def test_each_promise_has_a_test_that_tries_to_break_it() -> None:
    """One that exists: `test_what_pages_name_of_the_tests_and_the_package_exists` looks at the names."""
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    promised, _, _ = page.partition("## Not promised")
    _, *promises = re.split(r"(?m)^### ", promised)

    assert promises
    for promise in promises:
        _, _, tests = promise.partition("\nTests: ")
        assert re.findall(r"`test_\w+`|`tests/[\w/]+\.py`", tests), promise.splitlines()[0]


def test_each_claim_of_the_security_model_has_a_test() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?m)^\| claim \| tried by \|\n\|---\|---\|\n((?:\|.*\n)+)", page)

    assert tables
    for claim in "".join(tables).splitlines():
        assert re.search(r"`test_\w+`", claim.split(" | ")[-1]), claim


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 75


def test_there_is_code() -> None:
    assert len(MODULES) > 15


def test_what_is_not_run_is_not_ours() -> None:
    """So none of our code hides in a block that is only shown."""
    ran = {"python"}
    # `pyi` is written from the code; the last three are files, which tests/examples runs.
    shown = {"", "sh", "ini", "nginx", "text", "pyi", "js", "php", "go"}
    for page in PAGES:
        text = SHOWN.sub("", page.read_text(encoding="utf-8"))  # files, which `test_written` compares
        theirs = THEIRS.findall(text)
        fences = re.findall(r"(?m)^ *```(.*)$", THEIRS.sub("", text))
        # A directive of the site shows a file, or says what comes next; it holds no code.
        assert {fence for fence in fences if not re.match(r"\{[a-z-]+\}", fence)} <= ran | shown, page.name
        assert len(fences) % 2 == 0, page.name
        assert page.name == "coming-from.md" or not theirs, page.name
        assert not [code for code in theirs if re.search(r"triobot|@bot\.|\b[Cc]hat\.(ask|send)\b", code)]


def test_theirs_is_followed_by_ours() -> None:
    """Behind each block of another library stands one of ours."""
    page = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    behind = THEIRS.split(page)[2::2]
    assert behind
    assert [text for text in behind if "```python\n" not in text] == []


def test_what_a_package_says_of_its_modules_exists() -> None:
    """A module that has gone, or that has joined another one, is in no docstring of its package."""
    for face in (ROOT / "triobot").glob("*/**/__init__.py"):
        code = "\n".join(module.read_text(encoding="utf-8") for module in face.parent.glob("*.py"))
        there = {path.stem for path in face.parent.iterdir()} | set(
            re.findall(r"\b(?:def|class) (\w+)", code)
        )
        said = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
        assert set(re.findall(r"(?<!`)`(\w+)`(?!`)", said)) <= there, face

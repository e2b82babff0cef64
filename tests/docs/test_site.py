"""The pages as a site: it builds without a network and without a warning, and no link within it is broken.

Nor does axe find anything wrong with it, in a real browser.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlsplit

import pytest

import triobot
from tests.browser.chrome import Page as BrowserPage
from tests.browser.chrome import running_browser, what_is_missing
from tests.docs.questions import QUESTIONS
from tests.docs.summaries import FACES, names_in
from tests.samples import sample

ROOT: Final = Path(__file__).parents[2]
LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
AXE: Final = ROOT / "tests" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
# One of each sort; between them they have whatever the theme has.
MAIN: Final = ("index", "tutorial/01-first-conversation", "money", "api/widgets", "fa/README", "search")
SIZES: Final = ((1440, 900), (390, 844))


class Page(HTMLParser):
    """What a page can be entered at, leads to and loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag == "a":
            self.links.add(given.get("href") or "")
        if (address := given.get(LOADED.get(tag, ""))) and given.get("rel") not in ("index", "search"):
            self.loads.add(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it, as CONTRIBUTING says, beside the site of another version."""
    pytest.importorskip("sphinx")
    host = tmp_path_factory.mktemp("site")
    other, folder = host / "0.9", host / "new"
    other.mkdir()
    (other / "index.html").touch()
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "docs", str(folder)]
    environment = {**os.environ, "DOCS_VERSIONS": "0.9"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def broken(site: Path) -> Iterator[str]:
    """Yield the links within that lead nowhere, and whatever is not of the site and is loaded."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for address in page.links | page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    yield f"{path.relative_to(site)} loads {address}"
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = pages[there].ids if there in pages else {unquote(parts.fragment)}
            if not there.is_file() or (parts.fragment and unquote(parts.fragment) not in ids):
                yield f"{path.relative_to(site)}: {address}"


@pytest.mark.apart
def test_it_builds_and_no_link_within_is_broken(site: Path) -> None:
    assert sorted(broken(site)) == []


@pytest.mark.apart
def test_persian_pages_run_from_right_to_left_and_no_others_do(site: Path) -> None:
    turned = '<div dir="rtl" lang="fa">'
    persian = {page for page in site.rglob("*.html") if turned in page.read_text(encoding="utf-8")}

    assert persian == set((site / "fa").rglob("*.html")) != set()


@pytest.mark.apart
def test_a_page_leads_to_its_translation(site: Path) -> None:
    """Above its title; the first page does so in its text."""
    led = {
        (page.parent / link).resolve()
        for page in site.rglob("*.html")
        for link in re.findall(r'<p class="in-persian"><a href="([^"]+)"', page.read_text(encoding="utf-8"))
    }

    assert led == set((site / "fa").rglob("*.html")) - {site / "fa" / "README.html"}


@pytest.mark.apart
def test_each_page_names_its_version_and_leads_to_the_others(site: Path) -> None:
    for path in site.rglob("*.html"):
        there = os.path.relpath(site.parent / "0.9" / "index.html", path.parent)
        assert there in Page(path).links, path
        title = re.search("<title>([^<]*)</title>", path.read_text(encoding="utf-8"))
        assert title is not None and f"triobot {triobot.__version__}" in title[1], path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Be the static host, and tell its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


in_a_browser = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
with_axe = pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed (npm ci --prefix tests/browser)"
)


async def faults(page: BrowserPage, address: str, name: str) -> list[str]:
    """Open a page of the site, and return what axe finds in it, and whether it is wider than the screen."""
    await page.open(f"{address}/{name}.html")
    await page.run(f"void ((module) => {{ {AXE.read_text('utf-8')} }})()")
    found = await page.run("axe.run().then(({violations}) => violations)")
    wrong = [f"{name}: {one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]
    if await page.run("document.documentElement.scrollWidth > innerWidth"):
        wrong.append(f"{name} is wider than the screen")
    return wrong


@in_a_browser
@with_axe
@pytest.mark.apart
@pytest.mark.processes
async def test_axe_finds_nothing_wrong_with_it(site: Path) -> None:
    """In light and in dark, on a wide screen and on a phone, where no page is wider than the screen."""
    wrong = list[str]()
    with served(site) as address, running_browser() as browser:
        for size, dark in product(SIZES, (False, True)):
            async with browser.page("about:blank", size=size, dark=dark) as page:
                for name in MAIN:
                    wrong += [f"{size} {dark} {fault}" for fault in await faults(page, address, name)]
                assert [error for error in page.errors if "/favicon.ico" not in error] == []
    assert wrong == []


@in_a_browser
@with_axe
@pytest.mark.apart
@pytest.mark.processes
async def test_axe_finds_nothing_wrong_with_any_page_on_a_phone(site: Path) -> None:
    """All with ``--long``; else an even sample of those that are not looked at above."""
    names = sorted(str(page.relative_to(site).with_suffix("")) for page in site.rglob("*.html"))
    wrong = list[str]()
    with served(site) as address, running_browser() as browser:
        async with browser.page("about:blank", size=SIZES[-1]) as page:
            for name in sample((name for name in names if name not in MAIN), every=12):
                wrong += await faults(page, address, name)
    assert wrong == []


@in_a_browser
@pytest.mark.apart
@pytest.mark.processes
async def test_the_site_s_search_finds_each_answer(site: Path) -> None:
    """Its page is among the first ten that are shown to somebody who types the question's words."""
    missed = list[str]()
    with served(site) as address, running_browser() as browser:
        async with browser.page("about:blank") as page:
            for one in QUESTIONS:
                await page.open(f"{address}/search.html?q={quote_plus(one.asked)}")
                await page.wait("/found|match/.test(document.querySelector('.search-summary')?.textContent)")
                found = await page.run(
                    "[...document.querySelectorAll('ul.search > li > a')].slice(0, 10)"
                    ".map((link) => link.getAttribute('href'))"
                )
                if not any(re.match(rf"{one.page}\.html\b", link) for link in found):
                    missed.append(f"{one.asked!r}: {one.page} is not among {found}")
    assert missed == [], "\n".join(missed)


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html"></a><a href="a.html#here"></a>')
    (tmp_path / "c.html").write_text(
        '<a href="a.html#there"></a><script src="https://example.org/x.js"></script>'
    )

    assert sorted(broken(tmp_path)) == [
        "a.html: b.html",
        "c.html loads https://example.org/x.js",
        "c.html: a.html#there",
    ]


def test_every_public_name_has_its_docstring_on_one_page_of_the_api() -> None:
    """As `test_reference` says of the reference's rows."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.rst"))
    told = re.findall(r"(?m)^\.\. auto(?:class|function|data):: (\S+)$", pages)

    assert sorted(told) == sorted(
        f"{face}.{name}" for face, file in FACES.items() for name in names_in(ROOT / file)
    )

"""What the package's page shows has links that hold there, made from the project's one address."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from readme_renderer import markdown

from hatch_build import Addresses
from triobot import __version__

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HERE = "https://forge.test/people/triobot"
SHOWN = [
    ("github", "blob", "tree", "raw", f"{HERE}/issues"),
    ("gitlab", "-/blob", "-/tree", "-/raw", f"{HERE}/-/issues"),
]


def rendered(text: str) -> str:
    """Return the page as an index makes it, or fail."""
    page = markdown.render(text)
    assert page is not None
    return page


@pytest.mark.parametrize(("forge", "page", "folder", "raw", "issues"), SHOWN)
def test_each_link_leads_to_the_tag_s_file(forge: str, page: str, folder: str, raw: str, issues: str) -> None:
    at = Addresses(HERE, forge, "1.2.0", ROOT)

    made = at.readme(
        "[a](docs/jobs.md) and [b](docs/money.md#the-rules), [`c`](triobot/wire), "
        "![d](docs/images/speed.svg)\n"
        "[e](https://trio.readthedocs.io) [f](#test-it)\n\n```python\ng[h](i.j)\n```\n"
    )

    assert made == (
        f"[a]({HERE}/{page}/v1.2.0/docs/jobs.md) and [b]({HERE}/{page}/v1.2.0/docs/money.md#the-rules), "
        f"[`c`]({HERE}/{folder}/v1.2.0/triobot/wire), ![d]({HERE}/{raw}/v1.2.0/docs/images/speed.svg)\n"
        "[e](https://trio.readthedocs.io) [f](#test-it)\n\n```python\ng[h](i.j)\n```\n"
    )
    assert at.urls()["Issues"] == issues
    assert at.urls()["Documentation"] == f"{HERE}/{folder}/v1.2.0/docs"


@pytest.mark.parametrize("address", ["", HERE])
def test_the_page_has_no_link_into_a_repository(address: str) -> None:
    forge = "github" if address else ""
    page = rendered(Addresses(address, forge, __version__, ROOT).readme(README))

    leading = re.findall(r"(?:href|src)=\"([^\"]+)\"", page)
    assert leading
    assert [one for one in leading if not one.startswith(("https://", "#"))] == []
    assert any(one.startswith(HERE) for one in leading) == bool(address)
    # All that is said stays, with a link or without.
    assert "Tutorial" in page
    assert "<li>" in page


def test_all_that_the_addresses_name_is_there() -> None:
    at = Addresses(HERE, "github", __version__, ROOT)
    below = [url.partition(f"/v{__version__}/")[2] for url in at.urls().values()]
    assert [path for path in below if path and not (ROOT / path).exists()] == []


def test_while_there_is_no_address_none_is_told() -> None:
    assert Addresses("", "", __version__, ROOT).urls() == {}


@pytest.mark.parametrize(
    ("address", "forge"), [("http://forge.test/a", "github"), (f"{HERE}/", "gitlab"), (HERE, ""), (HERE, "f")]
)
def test_a_wrong_setting_stops_the_build(address: str, forge: str) -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml"):
        Addresses(address, forge, __version__, ROOT)


def test_the_metadata_is_complete() -> None:
    """As the build backend reads it, hook and all."""
    core = ProjectMetadata(str(ROOT), PluginManager()).core

    assert core.name == "triobot-runtime"
    assert core.license_expression == "MIT"
    assert {"LICENSE", "triobot/emulator/page/assets/vendor/preact-LICENSE.txt"} <= set(core.license_files)
    assert core.readme_content_type == "text/markdown"
    assert core.keywords
    assert core.authors == []  # the project names no people
    assert core.requires_python == ">=3.11"
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in core.classifiers


def test_a_dependency_has_a_lowest_version() -> None:
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    named = [*core.dependencies, *chain.from_iterable(core.optional_dependencies.values())]
    # From where it was tried; CI tries it there (.ci/versions).
    assert [one for one in named if ">=" not in one] == []


def test_the_version_is_written_once() -> None:
    assert ProjectMetadata(str(ROOT), PluginManager()).version == __version__
    assert f'"{__version__}"' not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")

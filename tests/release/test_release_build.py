"""Building twice, anywhere, gives the same bytes, and they hold all that an installed triobot needs."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.release.building import ROOT, built, copied
from triobot import __version__

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("first") / "triobot")


@pytest.fixture(scope="module")
def wheel(first: Path) -> Path:
    return built(first, "wheel")


@pytest.fixture(scope="module")
def sdist(first: Path) -> Path:
    return built(first, "sdist")


@pytest.mark.slow
def test_the_bytes_are_the_same_elsewhere(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Another folder, other times of its files, a umask that is stricter."""
    before = os.umask(0o077)
    try:
        second = copied(tmp_path / "elsewhere")
    finally:
        os.umask(before)

    assert built(second, "wheel", 0o077).read_bytes() == wheel.read_bytes()
    assert built(second, "sdist", 0o077).read_bytes() == sdist.read_bytes()


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")

    again = built(tmp_path / f"triobot_runtime-{__version__}", "wheel")

    assert again.read_bytes() == wheel.read_bytes()


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    kept = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "triobot").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        marked = [one for one in archive.infolist() if one.date_time[0] != 2023]

    about = f"triobot_runtime-{__version__}.dist-info"
    assert kept - inside == set()
    assert {name.partition("/")[0] for name in inside} == {"triobot", "triobot_pytest.py", about}
    for name in (
        "py.typed",
        "locale/triobot.pot",
        "emulator/openapi.json",
        "emulator/page/assets/index.html",
    ):
        assert f"triobot/{name}" in inside
    # Whoever passes the page's libraries on passes their licences on.
    licences = {name for name in inside if name.startswith(f"{about}/licenses/")}
    vendor = f"{about}/licenses/triobot/emulator/page/assets/vendor"
    assert licences == {
        f"{about}/licenses/LICENSE",
        f"{vendor}/htm-LICENSE.txt",
        f"{vendor}/preact-LICENSE.txt",
    }
    assert marked == []  # SOURCE_DATE_EPOCH

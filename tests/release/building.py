"""Builds the package as the workflow does, from this folder or from a commit, under any version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ["pyproject.toml", "hatch_build.py", "triobot_pytest.py", "README.md", "LICENSE", ".gitignore"]
FOLDERS = ["triobot", "docs"]


def copied(to: Path) -> Path:
    """Copy what is built from; each file is as old as its copy."""
    to.mkdir()
    for name in FILES:
        shutil.copyfile(ROOT / name, to / name)
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name,
            to / name,
            copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return to


def built(source: Path, target: str, umask: int = 0o022) -> Path:
    """Build as the workflow does, without the isolation that needs a network."""
    dist = source / "dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(dist)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        umask=umask,
        capture_output=True,
        check=True,
    )
    (made,) = dist.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def of_commit(commit: str, to: Path) -> Path:
    """Write what a commit is built from."""
    to.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(to)], input=archive.stdout, check=True)
    return to


def numbered(source: Path, version: str) -> Path:
    """Give what is built another version."""
    file = source / "triobot" / "base" / "version.py"
    text, count = re.subn('__version__ = ".*"', f'__version__ = "{version}"', file.read_text("utf-8"))
    assert count == 1
    file.write_text(text, "utf-8")
    return source

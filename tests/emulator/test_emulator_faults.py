"""Faults on demand."""

from __future__ import annotations

import pytest

from triobot.emulator.faults import Fault


def test_a_fault_of_no_operation_is_refused() -> None:
    """It would never happen, and nobody would notice."""
    for path in ("sendMessage", "payment/verify", "leaderBoard", "*"):
        assert Fault(operation=path, status=500).fits(path)
    for wrong in ("SendMessage", "/sendMessage", "verify", ""):
        with pytest.raises(ValueError, match="such as sendMessage"):
            Fault(operation=wrong)

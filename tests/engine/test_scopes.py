"""A Trio in which the engine can't see scopes is refused at once, and by name."""

from __future__ import annotations

import runpy

import pytest
import trio

from triobot.engine import scopes


def test_a_trio_that_has_changed_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trio.lowlevel.Task, "_cancel_status")
    with pytest.raises(ImportError, match=rf"trio {trio.__version__} .* an older trio, or a newer triobot"):
        runpy.run_path(scopes.__file__)

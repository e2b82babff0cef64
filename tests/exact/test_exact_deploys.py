"""Random edits under random conversations, in the runtime itself."""

from __future__ import annotations

import pytest

from tests.exact import deploys
from tests.samples import takes_all
from triobot.conversations.revival.changed import Changed


@pytest.mark.slow
def test_no_answer_goes_astray_by_a_deploy() -> None:
    told: list[str] = []
    count = deploys.run(range(1000 if takes_all() else 150), told.append)
    assert not count["WRONG"], "\n".join(told)
    assert min(count[verdict] for verdict in ("same", "reworded", "parked")) > 10


@pytest.mark.slow
def test_an_answer_that_goes_astray_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With matching by place and kind, as it was before records had lines."""
    monkeypatch.setattr(Changed, "parting", lambda *_: None)
    monkeypatch.setattr(Changed, "standing", lambda *_: None)
    assert deploys.run(range(60), lambda _: None)["WRONG"]

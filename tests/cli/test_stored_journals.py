"""What the page asks of a bot's store."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import frozen

from triobot.cli.stored_journals import StoredJournals
from triobot.operator.api import Tell
from triobot.operator.requests import AboutPayments, Request


@frozen
class Payments:
    """A bot whose payments come two at a time, by their ids."""

    made: Mapping[str, int]

    async def ask(self, request: Request, tell: Tell) -> None:
        assert isinstance(request, AboutPayments)
        after = request.fields.get("after")
        ids = [ref for ref in sorted(self.made) if after is None or ref > str(after)][:2]
        await tell({"payments": [{"ref": ref, "made_at": self.made[ref]} for ref in ids]})


@pytest.mark.parametrize("newest", ["a", "c", "e"])
async def test_money_that_was_asked_for_is_found_on_every_page(newest: str) -> None:
    made = dict.fromkeys("abcde", 10) | {newest: 20}
    journals = StoredJournals(Payments(made).ask, lambda since: [])

    assert await journals.has_payments(7, since=20)
    assert not await journals.has_payments(7, since=21)

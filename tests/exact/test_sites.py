"""Sites: what stands for the line of an operation, of whatever code it is."""

from __future__ import annotations

from triobot.exact.sites import SKIPPED, UNKNOWN, Sites


def test_code_that_is_nobodys_has_the_site_of_its_root() -> None:
    """Such as a bot that comes with the package: no frame of it is an author's."""
    sites = Sites(lambda _: SKIPPED)

    assert [sites.here(), sites.here(7)] == [sites.here(), sites.here(7)]
    assert sites.here() == UNKNOWN

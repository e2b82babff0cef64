"""What a failure means: a table over pure code."""

from __future__ import annotations

import ssl

import httpx
import pytest

from triobot.client.exchange import RequestProgress
from triobot.client.terms import stalled
from triobot.errors import DeliveryUnknownError, NotDeliveredError

BEFORE = [
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("slow"),
    httpx.PoolTimeout("full"),
    httpx.ProxyError("407"),
    httpx.UnsupportedProtocol("gopher"),
    httpx.LocalProtocolError("framing"),
]
AFTER = [
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    httpx.ReadTimeout("slow"),
    httpx.WriteTimeout("slow"),
    httpx.CloseError("closed"),
    httpx.RemoteProtocolError("no answer"),
    ConnectionResetError(104, "reset"),
]


@pytest.mark.parametrize("error", BEFORE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("may_have_left", [True, False])
def test_an_error_of_connecting_always_means_not_delivered(error: Exception, may_have_left: bool) -> None:
    assert isinstance(RequestProgress(may_have_left).failed("sendMessage", error), NotDeliveredError)


@pytest.mark.parametrize("error", AFTER, ids=lambda error: type(error).__name__)
def test_any_other_error_goes_by_how_far_the_request_got(error: Exception) -> None:
    assert isinstance(RequestProgress(may_have_left=True).failed("sendMessage", error), DeliveryUnknownError)
    assert isinstance(RequestProgress(may_have_left=False).failed("sendMessage", error), NotDeliveredError)


def test_running_out_of_patience_goes_by_how_far_the_request_got() -> None:
    assert isinstance(stalled("sendMessage", 30, may_have_left=True), DeliveryUnknownError)
    assert isinstance(stalled("sendMessage", 30, may_have_left=False), NotDeliveredError)


def test_a_request_may_have_left_once_its_headers_are_being_written() -> None:
    progress = RequestProgress(may_have_left=False)
    for event in ("connection.connect_tcp.started", "connection.connect_tcp.complete"):
        progress.step(event, tunnel=False)
    assert not progress.may_have_left

    progress.step("http11.send_request_headers.started", tunnel=False)
    assert progress.may_have_left


def test_the_request_that_opens_a_proxys_tunnel_is_not_ours() -> None:
    progress = RequestProgress(may_have_left=False)
    progress.step("http11.send_request_headers.started", tunnel=True)

    assert not progress.may_have_left


def test_a_connection_is_fresh_from_its_making_to_its_first_request() -> None:
    progress = RequestProgress(may_have_left=False)
    seen = []
    for event in (
        "connection.connect_tcp.started",
        "connection.connect_tcp.complete",
        "connection.start_tls.started",
        "connection.start_tls.complete",
        "http11.send_request_headers.started",
        "http11.send_request_headers.complete",
    ):
        progress.step(event, tunnel=False)
        seen.append(progress.fresh)

    assert seen == [False, True, False, True, False, False]


def test_why_there_was_no_connection_is_told_from_below() -> None:
    error = httpx.ConnectError("")
    error.__cause__ = OSError("")
    error.__cause__.__cause__ = ssl.SSLError("certificate verify failed")

    assert "certificate verify failed" in str(
        RequestProgress(may_have_left=False).failed("sendMessage", error)
    )
    assert "ConnectTimeout" in str(RequestProgress(may_have_left=False).failed("x", httpx.ConnectTimeout("")))

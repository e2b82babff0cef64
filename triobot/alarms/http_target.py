"""A target that sends alarms by signed HTTP POST, with httpx; imported only if a bot's settings name an
address.
"""

from __future__ import annotations

import hmac
import json
from typing import Final, final

import attrs
import httpx

from ..base.authorities import client_context
from ..base.secrets import Secret
from ..errors import ConfigError
from .targets import AlarmNews, TargetError

SIGNATURE: Final = "Triobot-Signature"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@final
class HttpTarget:
    """An address that receives alarms as a POST of JSON, signed with a shared secret.

    ``Triobot-Signature: t=SECONDS,v1=HEX`` contains the HMAC-SHA256 of ``SECONDS.BODY``. A receiver that
    checks the signature and the time can refuse replayed requests. Redirects are not followed. A user and a
    password in the address are sent as HTTP Basic authentication.

    Args:
        url: https address, or http to this computer; may contain a secret.
        secret: key of the signature.

    Raises:
        ConfigError: `url` is invalid.
    """

    name = "url"

    def __init__(self, url: Secret, secret: Secret) -> None:
        try:
            self._url = httpx.URL(url.reveal())
        except httpx.InvalidURL:
            raise ConfigError("ALARM_URL is no address") from None
        local = self._url.host in _LOOPBACK
        if not self._url.host or self._url.scheme not in (("https", "http") if local else ("https",)):
            raise ConfigError("ALARM_URL must be https://..., or http:// to this machine")
        known = self._url.username or self._url.password
        self._auth = httpx.BasicAuth(self._url.username, self._url.password) if known else httpx.Auth()
        self._secret = secret

    async def tell(self, news: AlarmNews) -> None:
        body = json.dumps({"id": news.id, **attrs.asdict(news)}).encode()
        at = str(news.at // 1000)
        digest = hmac.digest(self._secret.reveal().encode(), f"{at}.".encode() + body, "sha256").hex()
        headers = {"content-type": "application/json", SIGNATURE: f"t={at},v1={digest}"}
        request = httpx.Request("POST", self._url, headers=headers, content=body)
        request = next(self._auth.auth_flow(request))
        async with httpx.AsyncHTTPTransport(verify=client_context()) as transport:
            answer = await transport.handle_async_request(request)
            await answer.aclose()  # the answer's body is ignored and not read
        if not answer.is_success:
            raise TargetError(f"it answered {answer.status_code}")

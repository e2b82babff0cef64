"""HTTP/1.1 on Trio, for both sides, with nothing of bots in it.

Read it in this order. Shared: `links` (bytes over a connection) and `malformed`. The client's side:
`outgoing` and `response` (pure), `pool` (pure), `dialing`, `client_connection`, `connections`, `sending`,
`response_body`, `transport`.
"""

from __future__ import annotations

from .pool import Origin as Origin
from .transport import Attempt as Attempt
from .transport import Reply as Reply
from .transport import TrioTransport as TrioTransport

"""HTTP/1.1 on Trio, client and server; nothing in it knows of bots.

Read it in this order. Shared: `links` (bytes over a connection). The client's side: `outgoing` and `response`
(pure), `connections`, `transport`. The server's side: `request` (pure), `server_connection` (with one
request, its talk), `binding`, `listener`; and for applications `forwarded` (pure) and `asgi`.
"""

from __future__ import annotations

from .asgi import AsgiApp as AsgiApp
from .asgi import serve_asgi as serve_asgi
from .binding import Bind as Bind
from .binding import FdBind as FdBind
from .binding import RenewedCertificate as RenewedCertificate
from .binding import TcpBind as TcpBind
from .binding import UnixBind as UnixBind
from .binding import parse_bind as parse_bind
from .binding import server_context as server_context
from .connections import ClientConnection as ClientConnection
from .connections import Connections as Connections
from .connections import NothingSentError as NothingSentError
from .connections import Origin as Origin
from .forwarded import Proxies as Proxies
from .server_connection import ServingLimits as ServingLimits
from .transport import TrioTransport as TrioTransport

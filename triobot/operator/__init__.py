"""The operator API: requests to a running bot, by HTTP over a Unix socket beside its store.

`requests` has the requests, `routes` says where each is asked for, `api` answers them out of a store,
`serving` serves that on the socket, and `calling` is the client; `views` shows records to people. A command
that finds no bot behind the socket opens the store itself, under its lock, and asks an API of its own: the
answers are the same, without what only a running bot knows. There is no way in from the network. Where the
system has no Unix sockets, `loopback` is the way, by a key in a file; where the store is in a database, the
store is (`relayed`).
"""

from __future__ import annotations

from .api import OperatorApi as OperatorApi
from .calling import ask as ask
from .calling import is_on_server as is_on_server
from .calling import socket_path as socket_path
from .relayed import answer_relayed as answer_relayed
from .relayed import ask_relayed as ask_relayed
from .requests import AboutBroadcasts as AboutBroadcasts
from .requests import AboutJobs as AboutJobs
from .requests import AboutPayments as AboutPayments
from .requests import AcceptLines as AcceptLines
from .requests import Backup as Backup
from .requests import EndAlarms as EndAlarms
from .requests import Forget as Forget
from .requests import ListAlarms as ListAlarms
from .requests import ListChats as ListChats
from .requests import ListJournals as ListJournals
from .requests import OrderEnd as OrderEnd
from .requests import Reach as Reach
from .requests import ReadCode as ReadCode
from .requests import ReadJournals as ReadJournals
from .requests import ReadKept as ReadKept
from .requests import Request as Request
from .requests import SettleParked as SettleParked
from .requests import ShowJournal as ShowJournal
from .requests import Status as Status
from .requests import StreamStore as StreamStore
from .requests import Told as Told
from .serving import serve_api as serve_api
from .serving import serve_metrics as serve_metrics

"""The platform's client over HTTP: `PlatformClient`, usable without the rest of triobot.

Suggested reading order: `platform` (the client), `terms` (common rules of all requests, and the meaning of
failures), `address`, `posted` (requests over connections of `triobot.http`). The other modules send files and
use other libraries' transports, through httpx: `carried`, `exchange` (one request), `upload` (outgoing
files), `media` and `media_address` (incoming files).

The client doesn't retry, order, pace, store or log.
"""

from __future__ import annotations

from .platform import PlatformClient as PlatformClient
from .terms import DownloadProgress as DownloadProgress
from .terms import Uploaded as Uploaded
from .terms import UploadProgress as UploadProgress

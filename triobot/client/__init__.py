"""The platform over HTTP: `PlatformClient`, usable alone.

Read it in this order: `platform` (the client), `terms` (what all requests have in common, and what a failure
means), `address`, `posted` (the straight way out). Files and transports of somebody else's are httpx's
business: `carried`, `exchange` (one request), `successor`, `upload` (files on their way out), `media` (in).

Nothing is retried, ordered, paced or stored here, and nothing is logged.
"""

from __future__ import annotations

from .platform import PlatformClient as PlatformClient
from .terms import DownloadProgress as DownloadProgress
from .terms import Uploaded as Uploaded
from .terms import UploadProgress as UploadProgress

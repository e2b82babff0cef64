"""The platform over HTTP: `PlatformClient`, usable alone.

Read it in this order: `platform` (the client), `exchange` (one request, and what its failure means),
`upload` (files on their way out), `media` and `address` (files on their way in).

Nothing is retried, ordered, paced or stored here, and nothing is logged.
"""

from __future__ import annotations

from .media import DownloadProgress as DownloadProgress
from .platform import PlatformClient as PlatformClient
from .upload import Uploaded as Uploaded
from .upload import UploadProgress as UploadProgress

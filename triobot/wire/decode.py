"""Bytes to values: events and their content, results, and requests as the platform reads them.

Each raises `RemoteProtocolError` for what can't be read, and nothing else, whatever the bytes;
`decode_result` also raises the platform's refusals; `shape_of` describes what can't be read. The code is in
`inbound`, `content_text`, `answers` and `requests`.
"""

from __future__ import annotations

from .answers import decode_result as decode_result
from .answers import shape_of as shape_of
from .answers import take_unread as take_unread
from .content_text import decode_content as decode_content
from .inbound import decode_event as decode_event
from .requests import decode_operation as decode_operation

"""What these tests' bots send by, as the variable ``STACK`` says: triobot's own connections, or httpx's."""

from __future__ import annotations

import os

import httpx

TRANSPORT = None if os.environ.get("STACK", "ours") == "ours" else httpx.AsyncHTTPTransport()

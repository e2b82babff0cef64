"""The numbers of payments."""

from __future__ import annotations

import secrets

from ..wire.ids import RefId, as_ref_id


def new_ref_id() -> RefId:
    """16 random digits, the first 1 to 8: valid as base64 text, as letters and digits, and below 2**53.

    From the system's generator, never derived from a row's number: after a backup was restored, numbers that
    were used since must not come again.
    """
    return as_ref_id(str(10**15 + secrets.randbelow(8 * 10**15)))

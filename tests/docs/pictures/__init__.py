"""The pages' drawings, drawn from what the code says or does: `python -m tests.docs.writing` writes them.

`payment` reads the ledger's table, `order` drives the lanes, `rule` runs bots and kills them, `event` follows
the way that the architecture's page has measured. `svg` is what they draw with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.docs.pictures import event, order, payment, rule

_IMAGES: Final = Path(__file__).parents[3] / "docs" / "images"

PICTURES: Final[Mapping[Path, Callable[[], str]]] = {
    _IMAGES / "event.svg": event.draw,
    _IMAGES / "order.svg": order.draw,
    _IMAGES / "payment.svg": payment.draw,
    _IMAGES / "replay.svg": rule.draw_replay,
    _IMAGES / "replay-broken.svg": rule.draw_broken,
}

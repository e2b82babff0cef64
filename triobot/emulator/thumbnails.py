"""Sizes and resized images, by Pillow where it is installed (the extra ``dev``); without it, none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import attrs

from .uploads import SIZES

# About what a large camera makes. A small file can claim to be far larger, and eat the machine's memory.
_MOST_PIXELS: Final = 60_000_000


@final
@attrs.frozen
class Measured:
    """What Pillow made of an image.

    Attributes:
        size: width and height in pixels, the way up that the camera meant.
        previews: by the length of their longer edge, the names of the resized images' files.
    """

    size: tuple[int, int]
    previews: Mapping[int, str]


def measure(path: Path, folder: Path) -> Measured | None:
    """Read an image's size and write its resized copies beside it; None without Pillow, or if it can't.

    Blocks: call it in a thread. A copy is never larger than its original.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return None
    try:
        with Image.open(path) as image:
            if image.width * image.height > _MOST_PIXELS:
                return Measured(image.size, {})
            kind = "JPEG" if image.format == "JPEG" else "PNG"
            upright = ImageOps.exif_transpose(image)
            if kind == "PNG":
                upright = upright.convert("RGBA")
            previews: dict[int, str] = {}
            for edge in SIZES:
                small = upright.copy()
                small.thumbnail((edge, edge))
                previews[edge] = f"{path.name}-{edge}"
                small.save(folder / previews[edge], kind)
            return Measured(upright.size, previews)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        # A broken image is an image all the same: its sender sees it as it came.
        return None

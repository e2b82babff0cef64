"""A process decodes records of an earlier process: decoding finds the classes in the bot's own modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """\
from enum import Enum
import attrs

class Size(Enum):
    LARGE = 3

class Kitchen:
    @attrs.frozen
    class Order:
        size: Size

class Plain:
    pass
"""
PROGRAM = """\
import sys
from triobot.seams.values import decode_value, encode_value
from triobot.errors import UnreadableRecordError
if "import" in sys.argv:
    import orders
if "write" in sys.argv:
    print(encode_value([orders.Size.LARGE, orders.Kitchen.Order(orders.Size.LARGE)]))
else:
    try:
        print(decode_value(sys.argv[1]))
    except UnreadableRecordError as error:
        print("unreadable", "orders" in sys.modules)
"""


def run(folder: Path, *arguments: str) -> str:
    (folder / "orders.py").write_text(MODULE)
    (folder / "program.py").write_text(PROGRAM)
    path = f"{folder}:{Path(__file__).parents[1]}"
    command = [sys.executable, str(folder / "program.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": path})
    return done.stdout.strip()


@pytest.mark.processes
def test_classes_of_loaded_modules_are_found_and_no_module_is_imported(tmp_path: Path) -> None:
    text = run(tmp_path, "write", "import")

    assert run(tmp_path, text, "import") == "[<Size.LARGE: 3>, Kitchen.Order(size=<Size.LARGE: 3>)]"
    assert run(tmp_path, text) == "unreadable False"
    for name in ("orders.Plain", "orders.Nothing", "orders", "orders.Size.LARGE", "os.PathLike"):
        assert run(tmp_path, f'[1,{{"class":["{name}",{{}}]}}]', "import").startswith("unreadable")

"""Every sample of the wire is read as it was when it was added."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from triobot import errors
from triobot.errors import RefusedError, RemoteProtocolError
from triobot.wire import content, events, operations, results, undocumented
from triobot.wire.decode import decode_event, decode_result

CORPUS = Path(__file__).parent.parent / "corpus"
NAMES: dict[str, Any] = {}
for module in (content, events, operations, results, undocumented):
    NAMES.update(vars(module))


def samples(folder: str) -> list[Any]:
    found = sorted((CORPUS / folder).glob("*.json"))
    assert found
    return [pytest.param(json.loads(path.read_text("utf-8")), id=path.stem) for path in found]


def written(expression: str) -> object:
    """The value that a sample's expression stands for."""
    return eval(expression, NAMES.copy())


@pytest.mark.parametrize("sample", samples("inbound"))
def test_event_is_read_as_ever(sample: dict[str, Any]) -> None:
    """An old inbox row still is the same event."""
    encoded = sample.get("body_base64")
    body = sample["body"].encode() if encoded is None else base64.b64decode(encoded)
    if "refused" in sample:
        with pytest.raises(RemoteProtocolError) as caught:
            decode_event(sample["content_type"], body)

        assert caught.value.field == sample["refused"]
        assert caught.value.raw == body
        return
    event = decode_event(sample["content_type"], body)

    assert event == written(sample["expected"])


@pytest.mark.parametrize("sample", samples("answers"))
def test_answer_is_read_as_ever(sample: dict[str, Any]) -> None:
    """An answer is the same result, or the same refusal."""
    operation: Any = written(sample["operation"])
    body = sample["body"].encode()
    if "raises" not in sample:
        assert decode_result(operation, sample["status"], body) == written(sample["expected"])
        return
    name, *details = sample["raises"]
    with pytest.raises(getattr(errors, name)) as caught:
        decode_result(operation, sample["status"], body)
    error = caught.value

    assert type(error).__name__ == name
    if isinstance(error, RefusedError):
        assert [error.status, error.reason, error.trace_id] == details
        assert error.operation == operation.path
    else:
        assert [error.field] == details
        assert error.raw == body

from __future__ import annotations

import copy
import pickle

import pytest

from triobot.base.secrets import Secret


def test_nothing_but_reveal_shows_the_text() -> None:
    secret = Secret("swordfish")

    shown = f"{secret} {secret!r} {secret!s:>20} {[secret]} %s" % secret
    assert "swordfish" not in shown
    assert secret.reveal() == "swordfish"


@pytest.mark.parametrize("text", ["swordfish", "", "ماهی", "\ud800"])
def test_secrets_are_equal_by_their_text(text: str) -> None:
    assert Secret(text) == Secret(text)
    assert hash(Secret(text)) == hash(Secret(text))
    assert Secret(text) != Secret(text + "x")
    assert Secret(text) != text


def test_a_secret_refuses_to_be_written_down() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret("swordfish"))
    with pytest.raises(TypeError):
        copy.deepcopy(Secret("swordfish"))

"""The classes of errors: their tree, their page, and pickling."""

from __future__ import annotations

import pickle
import re

import pytest

from streamdec import errors
from streamdec.chunks import Chunk
from tests.support.pages import Page

MADE = {
    errors.TokenIdError: ("m", -1, 4),
}
"""The arguments of classes that do not take a message alone."""


def test_the_page_has_every_class() -> None:
    text = Page("docs/reference/errors.md").text
    own = {
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", "") == errors.__name__ and isinstance(value, type)
    }
    assert {*errors.__all__} == own
    assert {*re.findall(r"^\.\. autoclass:: (\w+)$", text, re.MULTILINE)} == own


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_survives_pickling(name: str) -> None:
    kind = getattr(errors, name)
    error = kind(*MADE.get(kind, ("m",)))
    error.chunk, error.num_taken = Chunk("text"), 3
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (kind, str(error), vars(error))

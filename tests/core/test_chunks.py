"""The nouns that come out of a stream."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from streamdec.chunks import Chunk, chunk_of


@pytest.mark.parametrize("text", ["", "a", "你😀"])
def test_a_chunk_made_quickly_is_one_like_others(text: str) -> None:
    made = chunk_of(text)
    assert type(made) is Chunk
    assert made == Chunk(text)
    assert hash(made) == hash(Chunk(text))
    assert repr(made) == repr(Chunk(text))
    assert pickle.loads(pickle.dumps(made)) == made
    assert [getattr(made, field.name) for field in dataclasses.fields(Chunk)] == [
        text,
        None,
        None,
        0,
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.text = "b"  # type: ignore[misc]

"""The objects that a stream yields."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable

import pytest

from streamdec.chunks import Chunk, chunk_of, json_of, with_token_ids


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
        (),
    ]
    assert chunk_of(text, (1, 2)) == Chunk(text, token_ids=(1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.text = "b"  # type: ignore[misc]


def test_a_chunk_shows_what_is_not_the_default() -> None:
    assert repr(Chunk("a")) == "Chunk(text='a')"
    assert repr(Chunk()) == "Chunk(text='')"
    shown = "Chunk(text='', finish_reason='stop', stop_reason=5, unread_tokens=1, token_ids=(5,))"
    assert repr(Chunk("", "stop", 5, 1, (5,))) == shown


@pytest.mark.parametrize("remade", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_a_shared_chunk_can_be_shared(remade: Callable[[Chunk], Chunk]) -> None:
    """What streams keep with a chunk is kept with a copy as well."""
    chunk = chunk_of("a")
    assert with_token_ids(chunk, (5,)) == Chunk("a", token_ids=(5,))
    assert json_of(chunk, str.encode) == b"a"
    again = remade(chunk)
    assert again == chunk
    assert with_token_ids(again, (6,)) == Chunk("a", token_ids=(6,))
    assert json_of(again, str.encode) == b"a"

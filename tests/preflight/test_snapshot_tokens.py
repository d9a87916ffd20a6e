"""Roles, added tokens and ids after loading: those of transformers, frozen for many snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from streamdec.folders.folder_tokens import Token
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens, Vocabulary
from tests.preflight.making import SPECIAL, added, control

DATA = json.loads((Path(__file__).parent / "data" / "loads.json").read_text("utf-8"))
"""Written by ``scripts/make_preflight_goldens.py``."""


def write_loaded(files: dict[str, Any], folder: Path) -> Path:
    """Writes a folder that transformers loaded."""
    parts = control()
    assert parts.tokenizer is not None
    parts.tokenizer["added_tokens"] = files["added_tokens"]
    parts.tokenizer_config, parts.config = files["tokenizer_config.json"], files["config.json"]
    parts.generation = None
    others = ("special_tokens_map.json", "added_tokens.json")
    parts.others = {name: files[name] for name in others if name in files}
    return parts.write(folder)


@pytest.mark.parametrize("index", range(len(DATA["entries"])))
def test_a_snapshot_is_loaded_as_by_transformers(index: int, tmp_path: Path) -> None:
    entry = DATA["entries"][index]
    tokens = Tokens(Snapshot(write_loaded(entry["files"], tmp_path)))
    eos = tokens.roles.get("eos_token")
    name = tokens.folder.chosen.name
    if name == "MistralCommonBackend":  # without mistral-common, as for this data
        name = "TokenizersBackend"
    assert {
        "class": name,
        "eos_token_id": None if eos is None else tokens.id_of(eos.text),
        "roles": {name: role.text for name, role in sorted(tokens.roles.items())},
        "added": {str(i): [text, special] for i, (text, special) in tokens.added.items()},
    } == entry["loaded"]


texts = st.sampled_from(["a", "é", "<x>", "<y>", "<z>", "<|im_end|>", "<|pad|>", ""])
# Of several with one text in one call tokenizers 0.22 takes the first, later ones the last.
DOUBLES = tuple(map(int, tokenizers.__version__.split(".")[:2])) >= (0, 23)
tokens_to_add = st.lists(
    st.builds(Token, texts, special=st.booleans()),
    max_size=6,
    unique_by=None if DOUBLES else lambda token: token.content,
)
ids = st.integers(256, 266)


@given(st.lists(st.tuples(ids, texts.filter(bool)), max_size=5), tokens_to_add, tokens_to_add)
def test_added_tokens_get_the_ids_that_the_library_gives(
    own: list[tuple[int, str]], first: list[Token], second: list[Token]
) -> None:
    """For any declarations, gaps and doubles included, and tokens that are added several times."""
    parts = control()
    assert parts.tokenizer is not None
    own = [*own, *((256 + i, text) for i, text in enumerate(SPECIAL))]
    parts.tokenizer["added_tokens"] = [{"id": i, **added(text)} for i, text in own]
    for builds in (False, True):
        if builds:
            parts.tokenizer["added_tokens"] = []
        library = tokenizers.Tokenizer.from_str(json.dumps(parts.tokenizer))
        given = () if builds else (Token(text, special=True) for _, text in own)
        ours = Vocabulary(parts.tokenizer["model"]["vocab"], [*given, *first, *second])
        library.add_tokens(first)
        library.add_tokens(second)
        theirs = library.get_added_tokens_decoder()
        assert ours.added == {i: (token.content, token.special) for i, token in theirs.items()}
        for text in (*SPECIAL, "a", "é", "<x>", "<y>", "<z>", "!"):
            assert ours.id_of(text) == library.token_to_id(text)
        for token_id in (*range(254, 275), 0, 10**6):
            assert ours.text_of(token_id) == library.id_to_token(token_id)
        assert ours.text_of(-1) is ours.text_of(2**40) is None

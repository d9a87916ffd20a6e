"""Caveats of tokenizers, and which of them the loader warns about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from streamdec import HuggingFaceTokenizer, load_tokenizer
from streamdec.backends.caveats import Caveat, caveats_of
from streamdec.errors import StreamdecWarning
from tests.support.zoo import ZOO

TEXT_DIFFERS = "They are decoded as other text"


def of_code(tokenizer: Any, code: str) -> Caveat:
    (found,) = [caveat for caveat in caveats_of(tokenizer) if caveat.code == code]
    return found


def words(*added: AddedToken, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    for token in added:
        tokenizer.add_tokens([token])
    return tokenizer


def id_of(library: Tokenizer, text: str) -> int:
    found: int | None = library.token_to_id(text)
    assert found is not None
    return found


def saved(folder: Path, tokenizer: Tokenizer, **beside: Any) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in beside.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return folder


def test_special_tokens_that_the_normalizer_changes_are_listed() -> None:
    end = AddedToken("</S>", special=True, normalized=True)
    safe = AddedToken("<S>", special=True, normalized=False)
    same = AddedToken("<s>", special=True, normalized=True)
    other = AddedToken("Tool", special=False, normalized=True)
    library = words(end, safe, same, other, normalizer=normalizers.Lowercase())
    tokenizer = HuggingFaceTokenizer(library)
    found = caveats_of(tokenizer)
    end_id, other_id = id_of(library, "</S>"), id_of(library, "Tool")
    if library.id_to_token(end_id) == "</S>":  # before tokenizers 0.23.1
        assert found == ()
        return
    # What the caveat says is true.
    [caveat] = found
    assert caveat.tokens == {end_id: "</S>", other_id: "Tool"}
    assert tokenizer.decode([end_id], skip_special_tokens=True) == "</s>"
    assert "does not skip '</S>'" in caveat.follows
    assert tokenizer.decode([other_id]) == "tool"


def test_the_loader_warns_where_text_differs_and_names_its_caller(tmp_path: Path) -> None:
    folder = saved(tmp_path, words(AddedToken("ü", normalized=False)))
    with pytest.warns(StreamdecWarning, match=TEXT_DIFFERS) as told:
        load_tokenizer(folder)
    assert [one.filename for one in told] == [__file__]
    assert "tokenizer.json': added tokens that a normalizer changes, or whose" in str(
        told[0].message
    )


@pytest.mark.parametrize(
    "processor",
    [
        processors.TemplateProcessing("<s> $A", "$A $B", [("<s>", 0)]),
        processors.RobertaProcessing(("<s>", 0), ("a", 0)),
        processors.Sequence([processors.BertProcessing(("a", 0), ("<s>", 0))]),
    ],
)
def test_ids_of_the_post_processor_that_the_vocabulary_contradicts(processor: Any) -> None:
    library = words(AddedToken("<s>", normalized=False))
    library.post_processor = processor
    found = of_code(HuggingFaceTokenizer(library), "POST_PROCESSOR_ID")
    assert found.tokens == {0: "<s>"}
    assert "'<s>' (0)" in str(found)


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.Metaspace()])
def test_a_decoder_that_cannot_read_its_vocabulary(decoder: Any, tmp_path: Path) -> None:
    library = ZOO["byte_level_trained"]()
    library.decoder = decoder
    with pytest.warns(StreamdecWarning, match="cannot read the vocabulary: it decodes 'a b' as"):
        load_tokenizer(saved(tmp_path, library))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_the_caveats_list_the_tokens_with_other_text(name: str) -> None:
    """The decoder gives the listed tokens other text, and no other token of a byte-level one."""
    library = ZOO[name]()
    found = caveats_of(HuggingFaceTokenizer(library))
    odd = {i for one in found for i in one.tokens}
    others = {
        i
        for i, token in library.get_added_tokens_decoder().items()
        if library.id_to_token(i) != token.content
        or library.decode([i], skip_special_tokens=False) != token.content
    }
    assert odd <= others
    if name.startswith("byte_level") and "fused" not in name:
        assert odd == others


def test_a_caveat_is_printed_as_a_sentence() -> None:
    tokens = dict(enumerate("abcd"))
    told = str(Caveat("X", "odd tokens", "They do nothing.", tokens))
    assert told == "odd tokens (4): 'a' (0), 'b' (1), 'c' (2), …. They do nothing."
    assert str(Caveat("X", "a setting", "It is ignored.")) == "a setting. It is ignored."

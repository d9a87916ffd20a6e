"""Caveats of tokenizers, and which of them the loader warns about."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from streamdec import HuggingFaceTokenizer, load_tokenizer
from streamdec.backends.caveats import warn_of_caveats
from streamdec.errors import StreamdecWarning
from tests.support.zoo import ZOO

TEXT_DIFFERS = "They are decoded as other text"


def told(library: Tokenizer) -> list[str]:
    """The warnings about a tokenizer."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_caveats(HuggingFaceTokenizer(library))
    return [str(each.message) for each in found]


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


def saved(folder: Path, tokenizer: Tokenizer) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_special_tokens_that_the_normalizer_changes_are_listed() -> None:
    end = AddedToken("</S>", special=True, normalized=True)
    safe = AddedToken("<S>", special=True, normalized=False)
    same = AddedToken("<s>", special=True, normalized=True)
    other = AddedToken("Tool", special=False, normalized=True)
    library = words(end, safe, same, other, normalizer=normalizers.Lowercase())
    end_id, other_id = id_of(library, "</S>"), id_of(library, "Tool")
    if library.id_to_token(end_id) == "</S>":  # before tokenizers 0.23.1
        assert told(library) == []
        return
    [found] = told(library)
    assert f": '</S>' ({end_id}), 'Tool' ({other_id}). {TEXT_DIFFERS}" in found
    tokenizer = HuggingFaceTokenizer(library)  # what it says is true
    assert tokenizer.decode([end_id], skip_special_tokens=True) == "</s>"
    assert tokenizer.decode([other_id]) == "tool"


def test_the_loader_warns_where_text_differs_and_names_its_caller(tmp_path: Path) -> None:
    folder = saved(tmp_path, words(*(AddedToken(f"ü{a}", normalized=False) for a in "äöÄÖ")))
    with pytest.warns(StreamdecWarning, match=TEXT_DIFFERS) as found:
        load_tokenizer(folder)
    assert [one.filename for one in found] == [__file__]
    assert "tokenizer.json': added tokens that a normal" in str(found[0].message)
    assert "'üÄ' (5) and 1 more." in str(found[0].message)


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
    [found] = told(library)
    assert "the post_processor adds with other ids" in found
    assert found.endswith(": '<s>' (0)")


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.Metaspace()])
def test_a_decoder_that_cannot_read_its_vocabulary(decoder: Any, tmp_path: Path) -> None:
    library = ZOO["byte_level_trained"]()
    library.decoder = decoder
    with pytest.warns(StreamdecWarning, match="cannot read the vocabulary: it decodes 'a b' as"):
        load_tokenizer(saved(tmp_path, library))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_warning_means_that_a_token_has_other_text(name: str) -> None:
    """And no warning means that it has its own, if the tokenizer is byte-level."""
    library = ZOO[name]()
    others = [
        i
        for i, token in library.get_added_tokens_decoder().items()
        if library.id_to_token(i) != token.content
        or library.decode([i], skip_special_tokens=False) != token.content
    ]
    is_told = any(TEXT_DIFFERS in found for found in told(library))
    assert is_told <= bool(others)
    if name.startswith("byte_level") and "fused" not in name:
        assert is_told == bool(others)

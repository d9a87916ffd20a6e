"""No part of a file may make texts too long, and this is known before the part runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from streamdec import load_tokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._growth import (
    MAX_DECODED,
    MAX_ENCODED,
    MAX_STAGES,
    check_growth,
    growth_of,
    parts_of,
)
from tests.support.zoo import shared_tokenizers

Stage = dict[str, Any]
SHARED = [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]
INNER = {"normalizer": "normalizers", "decoder": "decoders", "pre_tokenizer": "pretokenizers"}


def literal(pattern: str, content: str) -> Stage:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def regex(pattern: str, content: str) -> Stage:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def ctc(delimiter: str) -> Stage:
    return {"type": "CTC", "pad_token": "", "word_delimiter_token": delimiter, "cleanup": True}


def template(times: int, ids: Sequence[int] = ()) -> Stage:
    """A post-processor that repeats a text, and adds ``ids``."""
    ones = [{"Sequence": {"id": "A", "type_id": number}} for number in range(times)]
    other = {"Sequence": {"id": "B", "type_id": 0}}
    tokens = {"x": {"id": "x", "ids": [*ids], "tokens": ["x"] * len(ids)}}
    named = {"single": ones, "pair": [ones[0], other], "special_tokens": tokens}
    return {"type": "TemplateProcessing", **named}


BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def document(**parts: Any) -> str:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    return json.dumps({"version": "1.0", "added_tokens": [], **parts, "model": model})


def sequence(part: str, *stages: Stage) -> dict[str, Any]:
    return {part: {"type": "Sequence", INNER[part]: list(stages)}}


HOSTILE = {
    "doubling": sequence("decoder", *[literal("a", "aa")] * 40),
    "doubling after Fuse": sequence("decoder", {"type": "Fuse"}, *[literal("a", "aa")] * 40),
    "in turn": sequence("decoder", *[literal("a", "bb"), literal("b", "aa")] * 20),
    "an empty pattern": sequence("decoder", *[literal("", "a")] * 40),
    "an empty match": sequence("decoder", *[regex("a|", "aa")] * 40),
    "a look ahead": sequence("decoder", *[regex("(?=a)", "aa")] * 40),
    "an empty suffix": sequence("decoder", *[{"type": "BPEDecoder", "suffix": ""}] * 40),
    "an empty delimiter": sequence("decoder", *[ctc("")] * 40),
    "a long content": {"decoder": literal("a", "b" * 100)},
    "long texts": {"decoder": literal("a" * 20_000, "b" * 10)},
    "many stages": sequence("decoder", *[{"type": "Fuse"}] * (MAX_STAGES + 1)),
    "nested": sequence("decoder", *[sequence("decoder", *[literal("a", "aa")] * 4)["decoder"]] * 9),
    "a normalizer": sequence("normalizer", *[literal("a", "aa")] * 40),
    "expanded": sequence("normalizer", *[literal(" ", "\ufdfa"), {"type": "NFKD"}] * 20),
    "lowered": sequence("normalizer", *[literal("i", "\u0130\u0130"), {"type": "Lowercase"}] * 20),
    "prepended": {"normalizer": {"type": "Prepend", "prepend": "a" * 1_000}},
    "byte level again": sequence("pre_tokenizer", *[BYTE_LEVEL] * 20),
    "a template": {"post_processor": template(5)},
    "templates": {"post_processor": {"type": "Sequence", "processors": [template(2)] * 3}},
    "a long template": {"post_processor": template(1, [1] * 5_000)},
    "chinese": sequence("normalizer", *[BERT, literal(" ", "中")] * 20),
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_makes_texts_too_long_is_rejected(
    parts: dict[str, Any], tmp_path: Path
) -> None:
    part = next(iter(parts))
    said = rf"the {part} (has|may) .*"
    path = tmp_path / "tokenizer.json"
    path.write_text(document(**parts), "utf-8")
    with pytest.raises(TokenizerLoadError, match=rf"tokenizer\.json': {said}"):
        load_tokenizer(path)
    with pytest.raises(TokenizerLoadError, match=f"JSON text: {said}"):
        HuggingFaceTokenizer(document(**parts))


def test_known_post_processors_load() -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    for stages in ([byte_level], [byte_level, template(1)], [template(4)], [template(1)] * 9):
        parts = {"post_processor": {"type": "Sequence", "processors": stages}}
        assert HuggingFaceTokenizer(document(**parts)).decode([0, 1]) == "a b"


def test_where_the_part_stands_does_not_matter() -> None:
    text = document(**HOSTILE["doubling"])
    model = json.loads(text).pop("model")
    others = {key: value for key, value in json.loads(text).items() if key != "model"}
    for other in (
        json.dumps(json.loads(text), indent=3),
        json.dumps({"model": model, **others}),
        json.dumps({"model": {**model, "vocab": {"decoder": 0, "a": 1}}, **others}),
        text.replace('"decoder": {', '"d\\u0065coder"\n\t:\n {'),
        text.replace('"decoder": {', '"decoder": {"type": "Fuse"}, "decoder"' + " " * 99 + ": {"),
    ):
        with pytest.raises(TokenizerLoadError, match="the decoder may turn"):
            HuggingFaceTokenizer(other)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "pattern", "String", "Regex", "content", "prepend", "suffix", "decoders"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(part=st.sampled_from([*INNER]), data=ANYTHING | st.lists(ANYTHING, max_size=3))
def test_a_malformed_part_is_left_to_the_library(part: str, data: Any) -> None:
    """It rejects the file, or loads a tokenizer that does not make texts too long."""
    check_growth(parts_of(document(**{part: data}).encode(), "t"), "t")
    check_growth(
        parts_of(document(**{part: {"type": "Sequence", INNER[part]: data}}).encode(), "t"), "t"
    )


def test_sequences_in_sequences_may_be_deep() -> None:
    stage: Any = literal("a", "aa")
    for _ in range(450):
        stage = {"type": "Sequence", "decoders": [stage]}
    check_growth(parts_of(document(decoder=stage).encode(), "t"), "t")
    with pytest.raises(TokenizerLoadError):
        HuggingFaceTokenizer(document(decoder=stage))


def test_a_file_with_smaller_growth_is_loaded() -> None:
    stages = [literal("a", "aa")] * 4
    tokenizer = HuggingFaceTokenizer(document(**sequence("decoder", *stages)))
    assert tokenizer.decode([0, 1]) == "a" * MAX_DECODED + "b"
    ligatures = [literal(chr(0xFB00 + n), "fi" * 3) for n in range(20)]
    spaces = [regex(r"\s+", " "), regex("[\r\n]{2,}", "\n")] * 20
    HuggingFaceTokenizer(document(**sequence("decoder", *ligatures, *spaces)))


@pytest.mark.thorough
@pytest.mark.parametrize("path", SHARED)
def test_known_files_are_far_from_the_limits(path: Path) -> None:
    data = json.loads(path.read_text("utf-8"))
    assert growth_of(data["normalizer"], data["pre_tokenizer"]) <= MAX_ENCODED


# --- growth is at least that of the library -------------------------------------------------------

LETTERS = "aİ ﷺ中é\u0301"
words = st.text(LETTERS, max_size=3)
patterns = st.sampled_from(
    ["a|", "[a ]", r"\s+", "(?=a)", "a?", "^", "$", ".", "a{2,}", r"\b", "aa|a"]
)
kinds = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]
normalizer_stages = st.one_of(
    st.builds(literal, words, words),
    st.builds(regex, patterns, words),
    st.sampled_from([BERT, *({"type": kind} for kind in kinds)]),
    st.builds(lambda text: {"type": "Prepend", "prepend": text}, words.filter(bool)),
)
decoder_stages = st.one_of(
    st.builds(literal, words, words),
    st.builds(regex, patterns, words),
    st.builds(lambda text: {"type": "BPEDecoder", "suffix": text}, words),
    st.builds(ctc, words),
)


@given(st.lists(normalizer_stages, max_size=6), st.text(LETTERS, max_size=8))
def test_a_normalizer_makes_no_longer_text_than_computed(stages: list[Stage], text: str) -> None:
    parts = sequence("normalizer", *stages)
    growth = growth_of(parts["normalizer"], None)
    assume(growth <= MAX_ENCODED)
    normalizer = Tokenizer.from_str(document(**parts)).normalizer
    try:
        found = guarded(normalizer.normalize_str, text)
    except TokenizerLibraryError:  # the library panics on some empty matches
        return
    # Letters of the text itself are expanded again: 18 of the longest.
    expanded = sum(18 if letter == "ﷺ" else 3 for letter in text) + 1
    assert len(found) <= growth * expanded


@given(st.lists(decoder_stages, max_size=6), st.text("ab", max_size=8))
def test_a_decoder_makes_no_longer_text_than_computed(stages: list[Stage], text: str) -> None:
    growth = growth_of(sequence("normalizer", *stages)["normalizer"], None)
    assume(growth <= MAX_ENCODED)
    tokenizer = Tokenizer.from_str(document(**sequence("decoder", *stages)))
    found = tokenizer.decode(["ab".index(letter) for letter in text])
    # WordPiece clean-up aside, each piece is a text by itself.
    assert len(found) <= growth * 2 * (len(text) + 1)

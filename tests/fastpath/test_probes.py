"""Files that two encoders read this regex in different ways are found without encoding anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer

from streamdec.fastpath._fastokens import GUARDED
from streamdec.fastpath._probes import probes_of, static_faults
from streamdec.tokenizers.encodings import ENCODINGS
from tests.support.zoo import ZOO, shared_tokenizers


def token(content: str, token_id: int, *flags: str) -> dict[str, Any]:
    """An added token with these flags on."""
    known = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": token_id, "content": content, **{flag: flag in flags for flag in known}}


def faults(
    added: Sequence[dict[str, Any]] = (),
    normalizer: dict[str, Any] | None = None,
    regex: str | None = None,
    **model: Any,
) -> list[str]:
    """Those of a small byte-level tokenizer that was changed."""
    data = json.loads(ZOO["byte_level_trained"]().to_str())
    data["added_tokens"] = [token("<eos>", 0, "special"), *added]
    data["normalizer"] = normalizer
    data["model"] |= model
    if regex is not None:
        split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"}
        parts = [split | {"invert": False}, data["pre_tokenizer"]]
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
    return list(static_faults(Tokenizer.from_str(json.dumps(data))))


NFC = {"type": "NFC"}
FIRST = 330
"""The first id after the vocabulary."""


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ([token(" a", FIRST), token("<X>", FIRST + 1, "rstrip")], "begins with white space"),
        ([token("<X>A", FIRST, "normalized"), token("<X>", FIRST + 1)], "added tokens overlap"),
        ([token("<X>", FIRST, "normalized"), token("<X>A", FIRST + 1)], "added tokens overlap"),
        ([token("a<X>b", FIRST, "normalized"), token("<X>", FIRST + 1)], "added tokens overlap"),
        ([token("abc", FIRST, "normalized"), token("bcd", FIRST + 1)], "added tokens overlap"),
        ([token("İ", 237, "normalized", "single_word")], "depends on the text around it"),
        ([token("<X>", FIRST, "normalized", "lstrip")], "depends on the text around it"),
    ],
)
def test_added_tokens_that_are_found_in_two_ways(added: list[dict[str, Any]], fault: str) -> None:
    assert [found for found in faults(added) if fault in found]


@pytest.mark.parametrize(
    "added",
    [
        [token("<X>", FIRST), token("<X>A", FIRST + 1)],
        [token("<X>", FIRST, "normalized"), token("<Y>", FIRST + 1)],
        [token("<X>", FIRST, "lstrip", "rstrip", "single_word")],
        [token("  ", FIRST, "normalized"), token("   ", FIRST + 1, "normalized")],
        [token("bcd", FIRST, "normalized"), token("abx", FIRST + 1)],
    ],
)
def test_added_tokens_that_are_not(added: list[dict[str, Any]]) -> None:
    assert faults(added) == []
    # With a normalizer, both take two passes.
    assert faults([token("<X>A", FIRST, "normalized"), token("<X>", FIRST + 1)], NFC) == []


DIFFERING = [
    *(r"\w+", r"a\b", r"^\s", r"\s$", r"\h", r"\R", r"\p{N}{1,3}+", r"(?:a|\W)", r"\G."),
    # Properties that differ in some code points.
    *(r"\p{Han}+", r"[^\p{Han}a]", r"\P{^Latin}", "[[:alpha:]]+", "[[:^punct:]]"),
]
AGREEING = [
    *(r"\s+$", r"[\w^$]", r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+", r"\$\^", r"a{2,3}"),
    *(r"[\p{Lu}\P{^M}]\p{Sc}?", "[[:space:]]+", ENCODINGS["kimi"].pattern),
]


@pytest.mark.parametrize("regex", DIFFERING + AGREEING)
def test_regexes_that_differ_between_engines_are_found(regex: str) -> None:
    replace = {"type": "Replace", "pattern": {"Regex": regex}, "content": "x"}
    for found in (faults(regex=regex), faults(normalizer=replace)):
        differs = [fault for fault in found if "read this regex in different ways" in fault]
        assert bool(differs) == (regex in DIFFERING)
    assert regex in DIFFERING or faults(regex=regex) == []


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]
)
def test_real_files_have_no_faults_but_in_their_ids(path: Any) -> None:
    assert list(static_faults(Tokenizer.from_str(path.read_text("utf-8-sig")))) == []


def test_probes_are_the_same_each_time_and_of_all_kinds() -> None:
    library = ZOO["byte_level_trained"]()
    probes = probes_of(library)
    assert probes == probes_of(library)
    assert len(probes) == len(set(probes))
    assert max(map(len, probes)) == 40_000
    assert not any(GUARDED in probe for probe in probes)
    for added in library.get_added_tokens_decoder().values():
        assert {added.content, f"a{added.content}b", f"\t{added.content}\t x"} <= {*probes}

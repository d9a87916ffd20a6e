"""Each cell of the tables of ``docs/explanation/formats.md`` is tested with a file of that kind."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as LibraryTokenizer

from streamdec import (
    DecodeStream,
    HuggingFaceTokenizer,
    MockTokenizer,
    StreamdecWarning,
    load_tokenizer,
)
from streamdec.core.shared_tables import route_of
from streamdec.errors import ChatTemplateError, EncodeError, MissingExtraError
from streamdec.protocols import Tokenizer
from streamdec.tokenizers import EncodingSpec
from tests.backends.test_gguf import BERT, BYTE_LEVEL, RWKV
from tests.support.files import SHARED, rank_file, sentencepiece, small_gguf, tekken
from tests.support.pages import Page
from tests.support.zoo import UNCOMPILED, ZOO

PATH = "docs/explanation/formats.md"
SPEC = EncodingSpec("small", r"\s?\S+|\s+", {"<a>": 300})
TEMPLATE = "{% for m in messages %}{{ m.role }}{% endfor %}"
MESSAGES = [{"role": "user", "content": "Hi"}]


def rows(title: str) -> list[list[str]]:
    return Page(PATH, title).table


SPM = {"byte_fallback": True, "vocab_size": 600}
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "`tokenizer.json`, byte-level": ("tokenizer.json", lambda: _json("byte_level_trained")),
    "`tokenizer.json`, byte fallback": ("tokenizer.json", lambda: _json("byte_fallback_strip")),
    "`tokenizer.json`, another decoder": ("tokenizer.json", lambda: _json("metaspace_always")),
    "Tekken": ("tekken.json", lambda: json.dumps(tekken()).encode()),
    "tiktoken's rank file": ("a.tiktoken", rank_file),
    "SentencePiece, with byte fallback": ("tokenizer.model", lambda: sentencepiece(**SPM)),
    "SentencePiece, without": ("tokenizer.model", sentencepiece),
    "GGUF, `llama`": ("a.gguf", small_gguf),
    "GGUF, `gpt2`, with a known way to split text": ("a.gguf", lambda: small_gguf(**BYTE_LEVEL)),
    "GGUF, `gpt2`, another": ("a.gguf", lambda: small_gguf(**BYTE_LEVEL | {"pre": "unknown"})),
    "GGUF, `bert`": ("a.gguf", lambda: small_gguf(**BERT | {"eos_token_id": 2})),
    "GGUF, `rwkv`": ("a.gguf", lambda: small_gguf(**RWKV | {"eos_token_id": 0})),
    "GGUF, `t5`": ("a.gguf", lambda: small_gguf(model="t5")),
}


def _json(name: str) -> bytes:
    return ZOO[name]().to_str().encode()


def load(path: Path) -> Tokenizer:
    spec = SPEC if any(path.glob("*.tiktoken*")) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamdecWarning)
        # Not in a thread: the filters of warnings are those of all threads.
        return load_tokenizer(path, encoding=spec, fast="off")


def encodes(tokenizer: Any) -> str:
    try:
        ids = tokenizer.encode("hi l").ids
    except EncodeError:
        return "no"
    assert ids
    return "tried" if tokenizer.report.format == "gguf" else "exact"


def has_template(tokenizer: Any) -> bool:
    try:
        return bool(tokenizer.apply_chat_template(MESSAGES) == "user")
    except ChatTemplateError:
        return False


@pytest.mark.parametrize("row", rows("Files"), ids=lambda row: row[0])
def test_a_file_does_what_its_row_says(row: list[str], tmp_path: Path) -> None:
    name, make = FILES[row[0]]
    (tmp_path / name).write_bytes(make())
    tokenizer: Any = load(tmp_path)
    streams = "see below" if row[0].endswith("another decoder") else route_of(tokenizer)
    assert row[1:4] == [f"`{type(tokenizer).__name__}`", encodes(tokenizer), streams]
    has_roles = name not in ("tokenizer.json", "a.tiktoken")
    assert bool(tokenizer.special_tokens.eos_token) == has_roles
    assert not has_template(tokenizer)
    config = {"eos_token": "<a>" if name == "a.tiktoken" else "<eos>", "chat_template": TEMPLATE}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    beside: Any = load(tmp_path)
    assert beside.special_tokens.eos_token
    assert has_template(beside)


@pytest.mark.parametrize("row", rows("Files"), ids=lambda row: row[0])
def test_it_needs_the_extra_that_is_named(
    row: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the library there is one error, with it none; for GGUF it is what encodes."""
    name, make = FILES[row[0]]
    (tmp_path / name).write_bytes(make())
    for library in ("tiktoken", "sentencepiece", "fastokens"):
        monkeypatch.setitem(sys.modules, library, None)
    told = ""
    try:
        encodes(load(tmp_path))
    except MissingExtraError as error:
        told = str(error)
    assert re.findall(r"`(\w+)`", row[4]) == re.findall(r"streamdec\[(\w+)\]", told)


CHAINS = {
    "`ByteLevel`": "byte_level byte_level_trained",
    "`ByteLevel`, `Fuse`, `Strip` at the start, literal `Replace`": "byte_level_fused",
    "`Replace`, `ByteFallback`, `Fuse`, `Strip`": "byte_fallback_strip byte_fallback_strip_two",
    "the same without `Strip`": "byte_fallback byte_fallback_bare byte_fallback_silent_special",
    "`ByteFallback`, `Metaspace`": "byte_fallback_metaspace byte_fallback_metaspace_never",
    "`Metaspace`": "metaspace_always metaspace_first metaspace_never metaspace_underscore "
    "metaspace_unigram",
    "`WordPiece`": "wordpiece wordpiece_plain wordpiece_strip",
    "`BPEDecoder`": "bpe_suffix bpe_suffix_short",
    "`CTC`, or `CTC` and `Metaspace`": "ctc ctc_plain ctc_metaspace",
    "none": "no_decoder word_level",
    "an empty `Sequence`, or `Fuse` alone": "empty_sequence fuse no_longer_special",
    "`Replace` (also a regex) and `Strip` at the start, within tokens": "replace_in_pieces "
    "regex_in_pieces strip_in_pieces empty_pattern_in_pieces normalized_specials",
    "literal `Replace` after `Fuse`": "replaces_after_fuse byte_fallback_replaces",
    "regex `Replace` after `Fuse`": "regex_after_fuse",
    "`Strip` at the end of the text": "strip_stop",
    "`Metaspace` after `Fuse`, `Strip` within tokens after `Metaspace`": "metaspace_after_fuse "
    "metaspace_strip_unfused",
    "`Strip` of text after a `Replace` of it": "strip_after_replace",
    "a decoder written in Python": "python_decoder",
}


def test_each_kind_of_file_and_of_decoder_has_a_row() -> None:
    assert [row[0] for row in rows("Decoders of a `tokenizer.json`")] == [*CHAINS]
    assert sorted(" ".join(CHAINS.values()).split()) == sorted([*ZOO, *UNCOMPILED])
    assert [row[0] for row in rows("Files")] == [*FILES]


@pytest.mark.parametrize("row", rows("Decoders of a `tokenizer.json`"), ids=lambda row: row[0])
def test_a_chain_of_decoders_is_streamed_as_its_row_says(row: list[str]) -> None:
    rules, routes = set(), set()
    for name in CHAINS[row[0]].split():
        tokenizer = HuggingFaceTokenizer((ZOO | UNCOMPILED)[name]())
        rules |= {f"`{type(tokenizer.rules.rule).__name__}`" if tokenizer.rules else "–"}
        routes |= {route_of(tokenizer)}
    assert (set(row[1].split(", ")), {row[2]}) == (rules, routes)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (row[1].strip("`"), name)
        for row in rows("Decoders of a `tokenizer.json`")
        for name in row[3].split(", ")
        if name != "–"
    ],
)
def test_a_real_tokenizer_has_the_rule_of_its_row(rule: str, name: str) -> None:
    path = SHARED / name / "tokenizer.json"
    if not path.exists():
        pytest.skip("the folder of real tokenizers is not here")
    tokenizer = HuggingFaceTokenizer(LibraryTokenizer.from_file(str(path)))
    assert type(tokenizer.rules.rule if tokenizer.rules else None).__name__ == rule
    assert route_of(tokenizer) == "bytes"


def test_objects_take_the_route_of_their_row() -> None:
    class Plain:
        def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
            return "".join(map(chr, token_ids))

    library = ZOO["byte_level"]()
    assert DecodeStream(library).route == "bytes"
    plain, mock = DecodeStream(Plain()).route, DecodeStream(MockTokenizer()).route
    assert [row[1] for row in rows("Objects")] == ["as above", "as above", plain, "bytes", mock]

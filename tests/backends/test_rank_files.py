from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends.rank_files import cached_file, encodings_of, parse_ranks
from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec, RankFile
from tests.support.files import rank_file


@given(st.dictionaries(st.binary(min_size=1, max_size=12), st.integers(0, 2**24 - 1), min_size=1))
def test_written_values_are_read_unchanged(by_token: dict[bytes, int]) -> None:
    ranks = {token: rank for rank, token in {r: t for t, r in by_token.items()}.items()}
    assert parse_ranks(rank_file(ranks)) == ranks


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no ranks"),
        (b"\n\n", "no ranks"),
        (b"IQ==", "line 1"),
        (b"IQ== 0\nIg== -1", "line 2"),
        (b"IQ== 0 1", "line 1"),
        (b"IQ= 0", "line 1"),
        (b"I!== 0", "line 1"),
        (b"IQ== 16777216", "line 1"),
        (b"IQ== " + b"9" * 5000, "line 1"),
        (b"IQ== 1_0", "line 1"),
        (b"IQ== 1.5", "line 1"),
        ("IQ== ٣".encode(), "line 1"),
        (b"IQ== 0\nIQ== 1", r"line 2: the token b'!' occurs twice"),
        (b"IQ== 0\nIg== 0", "two tokens have the same rank"),
        (b"\x00" * 5000, "line 1"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(content: bytes, message: str) -> None:
    with pytest.raises(TokenizerLoadError, match=f"^my file.*{message}") as caught:
        parse_ranks(content, "my file")
    assert len(str(caught.value)) < 250


@given(st.binary(max_size=60))
def test_any_bytes_are_ranks_or_a_tokenizer_load_error(content: bytes) -> None:
    try:
        ranks = parse_ranks(content)
    except TokenizerLoadError:
        return
    assert all(0 <= rank < 2**24 for rank in ranks.values())


def test_a_shared_file_is_first_of_all_the_encoding_that_uses_all_of_it() -> None:
    by_name = {name: [file.sha256 for file in spec.files] for name, spec in ENCODINGS.items()}
    p50k, r50k = by_name["p50k_base"][0], by_name["r50k_base"][0]
    names = {sha: [spec.name for spec in encodings_of(sha)] for sha in (p50k, r50k, "0" * 64)}
    assert names[p50k] == ["p50k_base", "p50k_edit", "r50k_base", "gpt2"]
    assert names[r50k] == ["r50k_base", "gpt2"]
    assert names["0" * 64] == []


def test_the_cache_of_tiktoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RankFile("0" * 64, "https://example.org/x.tiktoken")
    name = hashlib.sha1(file.url.encode()).hexdigest()
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert cached_file(file) is None
    (tmp_path / name).write_bytes(b"")
    assert cached_file(file) == tmp_path / name
    assert cached_file(RankFile("0" * 64)) is None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert cached_file(file) is None


def test_the_facts_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    loaded: list[RankFile] = []

    def note(url: str, expected_hash: str) -> dict[bytes, int]:
        loaded.append(RankFile(expected_hash, url))
        return {}

    monkeypatch.setattr(public, "load_tiktoken_bpe", note)
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", lambda **_: {})
    for name, construct in public.ENCODING_CONSTRUCTORS.items():
        spec = ENCODINGS[name]
        facts = construct()
        assert spec.pattern == facts["pat_str"]
        assert spec.special_tokens == facts["special_tokens"]
        assert name == "gpt2" or loaded.pop() in spec.files
        assert ENCODINGS["gpt2"].files == ENCODINGS["r50k_base"].files


def test_tokens_are_numbered_where_ranks_do_not_count() -> None:
    lines = [b"YQ== 7", b"Yg== 7", b"YQ== 3", b"Yw== 0"]
    ranks = parse_ranks(b"\n".join(lines), is_numbered=True)
    assert ranks == {b"a": 0, b"b": 1, b"c": 2}
    with pytest.raises(TokenizerLoadError, match=r"line 3: the token b'a' occurs twice"):
        parse_ranks(b"\n".join(lines))


def test_special_tokens_follow_the_ranks() -> None:
    facts = {
        "llama3": (128_000, 256, {128_000: "<|begin_of_text|>", 128_009: "<|eot_id|>"}),
        "llama3.1": (128_000, 256, {128_009: "<|eot_id|>", 128_010: "<|python_tag|>"}),
        "llama4": (200_000, 2048, {200_008: "<|eot|>", 200_080: "<|image_start|>"}),
        "glm4": (151_329, 14, {151_331: "[gMASK]", 151_336: "<|user|>"}),
        "hunyuan": (127_957, 210, {127_958: "<|startoftext|>", 127_960: "<|eos|>"}),
        "qwen": (151_643, 208, {151_645: "<|im_end|>", 151_850: "<|extra_204|>"}),
    }
    for name, (first, count, some) in facts.items():
        ids = {token_id: token for token, token_id in ENCODINGS[name].special_tokens.items()}
        assert sorted(ids) == list(range(first, first + count)), name
        assert {token_id: ids[token_id] for token_id in some} == some
    # The numbers in the comments of models/llama4/tokenizer.py.
    llama4 = ENCODINGS["llama4"].special_tokens
    assert llama4["<|reasoning_reserved_special_token_0|>"] == 201_134
    assert llama4["<|reasoning_thinking_end|>"] == 201_143


@pytest.mark.parametrize("spec", ENCODINGS.values(), ids=list(ENCODINGS))
def test_roles_are_special_tokens(spec: EncodingSpec) -> None:
    roles = {spec.bos_token, spec.eos_token, spec.pad_token} - {None}
    assert roles <= spec.special_tokens.keys()
    assert {*spec.begins_with} <= spec.special_tokens.keys()
    assert all(len(file.sha256) == 64 for file in spec.files)

"""Tables of bytes: RWKV's vocabulary file, and the classes that encode bytes."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends.byte_vocabulary import ByteTableTokenizer
from streamdec.errors import EncodeError, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from tests.support.files import write_json

BYTES = [bytes([byte]) for byte in range(256)]
WORDS = [b"the", b" the", b"then", b"\n\n", "é".encode(), "你好".encode(), b"\xe4\xbd", b"it's"]


def rwkv_file(tokens: list[bytes]) -> bytes:
    """RWKV's file: ids from 1 on, and each token as Python writes it."""

    def literal(token: bytes) -> str:
        try:
            return repr(token.decode())
        except UnicodeDecodeError:
            return repr(token)

    lines = [f"{i} {literal(token)} {len(token)}" for i, token in enumerate(tokens, 1)]
    return "".join(f"{line}\n" for line in lines).encode()


def rwkv(tokens: list[bytes], config: dict[str, Any] | None = None) -> ByteTableTokenizer:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rwkv_vocab_v20230424.txt"
        path.write_bytes(rwkv_file(tokens))
        if config is not None:
            write_json(path.parent / "tokenizer_config.json", config)
        return ByteTableTokenizer.from_rwkv(path)


# --- RWKV -----------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=30), st.text(max_size=40))
def test_a_text_is_the_longest_token_at_each_place(words: list[bytes], text: str) -> None:
    tokens = list(dict.fromkeys([*BYTES, *WORDS, *words]))
    tokenizer, data = rwkv(tokens), text.encode()
    expected, start = [], 0
    while start < len(data):
        longest = max((t for t in tokens if data.startswith(t, start)), key=len)
        expected.append(tokens.index(longest) + 1)
        start += len(longest)
    assert [*tokenizer.encode(text)] == expected
    assert tokenizer.decode(expected) == text


@given(st.lists(st.integers(0, 270)))
def test_ids_are_decoded_as_their_joined_bytes(ids: list[int]) -> None:
    tokens = [*BYTES, *WORDS]
    data = b"".join(tokens[i - 1] for i in ids if 1 <= i <= len(tokens))
    assert rwkv(tokens).decode(ids) == data.decode("utf-8", "replace")


def test_id_0_ends_a_text() -> None:
    tokenizer = rwkv(BYTES)
    assert tokenizer.special_tokens.eos_token == "<|endoftext|>"
    assert tokenizer.encode("a<|endoftext|>").ids == (ord("a") + 1, 0)
    assert 0 not in tokenizer.encode("a<|endoftext|>", special="text").ids
    with pytest.raises(EncodeError, match="endoftext"):
        tokenizer.encode("a<|endoftext|>", special="forbid")
    assert tokenizer.decode([0, ord("a") + 1, 0]) == "a"
    assert tokenizer.decode([0], skip_special_tokens=False) == "<|endoftext|>"


def test_files_beside_it_name_tokens() -> None:
    declared = {"0": {"content": "<s>", "special": True}, "257": {"content": "<t>"}}
    config = {"added_tokens_decoder": declared, "bos_token": "<s>", "eos_token": "\n\n"}
    tokenizer = rwkv([*BYTES, b"xx", b"\n\n"], {**config, "add_bos_token": True})
    assert tokenizer.special_tokens.bos_token == "<s>"
    assert tokenizer.special_tokens.eos_token == "\n\n"
    assert tokenizer.encode("<s><t>", add_special_tokens=True).ids == (0, 0, 257)
    assert tokenizer.decode([0, 257, 258]) == "<t>\n\n"


@pytest.mark.parametrize(
    "line",
    [
        *("257 'ab' 3", "257 ab 2", "-1 'ab' 2", "257 'ab'", "257 'a' + 'b' 2", "1 'ab' 2"),
        *(r"257 '\d' 2", r"257 b'\u0061' 1", r"257 '\ud800' 3", "257 b'é' 1", "257 '' 0"),
        *(r"257 '\U00110000' 4", f"257 '{'a' * 256}' 256", "99999999 'ab' 2", "257 'a'b' 3"),
    ],
)
def test_a_malformed_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "rwkv_vocab.txt"
    path.write_bytes(rwkv_file(BYTES) + line.encode())
    with pytest.raises(TokenizerLoadError, match="line 257"):
        load_tokenizer(path)


def test_each_byte_needs_a_token(tmp_path: Path) -> None:
    path = tmp_path / "rwkv_vocab.txt"
    path.write_bytes(rwkv_file(BYTES[:-2]))
    with pytest.raises(TokenizerLoadError, match="2 bytes without a token, such as 0xfe"):
        load_tokenizer(path)


@pytest.mark.parametrize("name", ["rwkv_vocab_v20230424.txt", "vocab.txt"])
def test_a_folder_of_rwkv_is_found(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(rwkv_file([*BYTES, *WORDS]))
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "Rwkv6Tokenizer"})
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.report.format, tokenizer.report.active) == ("rwkv", "bytes")
    assert tokenizer.encode("then").ids == (259,)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode(" then you").ids == tokenizer.encode(" then you").ids


# --- classes of byte tokens -----------------------------------------------------------------------


def folder_of(config: dict[str, Any], tmp_path: Path) -> Path:
    write_json(tmp_path / "tokenizer_config.json", config)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("héllo", [107, 198, 172, 111, 111, 114, 1]),
        (" a </s> b", [35, 100, 1, 101, 1]),
        ("x<extra_id_0>y", [123, 259, 124, 1]),
        ("<extra_id_0> y", [259, 35, 124, 1]),
        ("a</s>", [100, 1]),
        ("<unk>", [2, 1]),
    ],
)
def test_byt5_is_that_of_transformers(text: str, ids: list[int], tmp_path: Path) -> None:
    """The ids are those of ``ByT5Tokenizer`` of transformers 5.24."""
    tokenizer = load_tokenizer(folder_of({"tokenizer_class": "ByT5Tokenizer"}, tmp_path))
    assert tokenizer.report.format == "bytes"
    assert [*tokenizer.encode(text, add_special_tokens=True)] == ids
    assert tokenizer.vocab_size == 384
    assert tokenizer.decode([107, 300, 108], skip_special_tokens=False) == "h<extra_id_41>i"
    assert tokenizer.decode([107, 300, 1, 108, 400]) == "hi"
    assert tokenizer.special_tokens.eos_token == "</s>"


def test_declared_tokens_of_byt5_win(tmp_path: Path) -> None:
    declared = {"0": {"content": "<p>", "special": True}, "259": {"content": "<tool>"}}
    config = {"tokenizer_class": "ByT5Tokenizer", "pad_token": "<p>", "eos_token": "<e>"}
    folder = folder_of({**config, "added_tokens_decoder": declared}, tmp_path)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.special_tokens.pad_token == "<p>"
    assert tokenizer.encode("a <p> <tool>").ids == (100, 35, 0, 35, 259)
    assert tokenizer.encode("a", add_special_tokens=True).tokens == ("a", "<e>")
    assert tokenizer.decode([259, 0]) == "<tool>"


def test_a_role_whose_place_another_token_has_is_not_added(tmp_path: Path) -> None:
    declared = {"1": {"content": "<other>", "special": True}}
    folder = folder_of(
        {"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": declared}, tmp_path
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("a", add_special_tokens=True).ids == (100,)
    assert tokenizer.special_tokens.eos_token is None


def test_a_role_of_byt5_has_the_flags_of_its_object(tmp_path: Path) -> None:
    """Strings take the white space around them, as in ``ByT5Tokenizer`` of transformers 5.24."""
    end = {"content": "<x>", "rstrip": True}
    folder = folder_of({"tokenizer_class": "ByT5Tokenizer", "eos_token": end}, tmp_path)
    assert load_tokenizer(folder).encode("a <x> b <pad> c").ids == (100, 35, 1, 101, 0, 102)


@given(st.text(max_size=30))
def test_evabyte_has_64_special_tokens_before_the_bytes(text: str) -> None:
    code = {"AutoTokenizer": ["tokenization_evabyte.EvaByteTokenizer", None]}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = load_tokenizer(folder_of({"auto_map": code}, Path(folder)))
    ids = [byte + 64 for byte in text.encode()]
    assert [*tokenizer.encode(text, special="text")] == ids
    assert tokenizer.encode(f"{text}<|eot_id|>").ids[-1] == 11
    assert tokenizer.encode(text, add_special_tokens=True).ids[0] == 1
    assert tokenizer.decode([1, *ids, 2, 63]) == text
    assert tokenizer.vocab_size == 320


def test_a_long_run_of_spaces_before_a_token_takes_linear_time(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder_of({"tokenizer_class": "ByT5Tokenizer"}, tmp_path))
    assert tokenizer.encode(f"a{' ' * 200_000}</s>").ids == (100, 1)
    assert len(tokenizer.encode(f"a{' ' * 200_000}<extra_id_3>")) == 200_002


def test_another_class_is_not_taken_for_bytes(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match="names none of the classes"):
        ByteTableTokenizer.from_folder(folder_of({"tokenizer_class": "CanineTokenizer"}, tmp_path))

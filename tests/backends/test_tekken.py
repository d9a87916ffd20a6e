from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends.tekken import TekkenTokenizer
from streamdec.errors import TokenizerLoadError
from tests.support.files import MERGED, tekken

tiktoken = pytest.importorskip("tiktoken")

NAMES = ["<unk>", "<s>", "</s>", "[INST]"]
ALL = [bytes([byte]) for byte in range(256)] + MERGED


def made(**changes: Any) -> TekkenTokenizer:
    return TekkenTokenizer(json.dumps(tekken(None, NAMES, 10, **changes)).encode())


OURS = made()
THEIRS = tiktoken.Encoding(
    "theirs",
    pat_str=r"[^\s]+|\s+",
    mergeable_ranks={token: rank for rank, token in enumerate(ALL)},
    special_tokens={},
)


@given(st.lists(st.integers(0, len(ALL) - 1)), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_rank_is_an_id_after_the_special_ones(ranks: list[int], text: str) -> None:
    assert OURS.decode([rank + 10 for rank in ranks]) == THEIRS.decode(ranks)
    expected = [rank + 10 for rank in THEIRS.encode(text)]
    assert list(OURS.encode(text, special="text")) == expected


def test_special_tokens_have_the_first_ids() -> None:
    names = [*NAMES, *(f"<SPECIAL_{i}>" for i in range(4, 10))]
    assert [OURS.id_to_token(i) for i in range(10)] == names
    assert all(OURS.is_skipped(i) for i in range(10))
    assert not OURS.is_skipped(10)
    assert OURS.vocab_size == 10 + len(ALL)  # there are more tokens in the file
    assert OURS.piece(10 + len(ALL)) is None
    assert OURS.token_to_id(b"beyond 1") is None
    assert OURS.decode([1, 10 + ord("a"), 2], skip_special_tokens=False) == "<s>a</s>"
    assert OURS.encode("a", add_special_tokens=True).ids == (1, 10 + ord("a"))
    assert (OURS.special_tokens.bos_token, OURS.special_tokens.pad_token) == ("<s>", None)


def test_until_version_7_twenty_names_are_fixed() -> None:
    data = tekken(num_special=22, version="v7")
    tokenizer = TekkenTokenizer(json.dumps(data).encode())
    assert tokenizer.id_to_token(9) == "[TOOL_CALLS]"
    assert [tokenizer.id_to_token(i) for i in (19, 20)] == ["[TOOL_CONTENT]", "<SPECIAL_20>"]


def entry(rank: Any, token: str) -> dict[str, Any]:
    return {"rank": rank, "token_bytes": token, "token_str": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab": None}, "vocab must be a list"),
        ({"config": {}}, "no 'default_num_special_tokens'"),
        ({"config": 5}, "not subscriptable"),
        ({"vocab": [entry(0, "AA=")] * 300}, "entry 0: 'AA=' is not base64"),
        ({"vocab": [entry(0, "é")] * 300}, "entry 0: 'é' is not base64"),
        ({"vocab": [entry(0, "AA==")] * 300}, "entry 1 has rank 0"),
        ({"vocab": [entry(i, "AA==") for i in range(300)]}, "two tokens have the same bytes"),
        ({"vocab": []}, "asks for 272 tokens .*, and vocab has 0"),
        (
            {"special_tokens": [{"rank": i, "token_str": f"x{i}"} for i in range(11)]},
            "a special token has the id 10; such ids must be below 10",
        ),
        ({"special_tokens": [{"rank": 0, "token_str": "<SPECIAL_1>"}]}, "two special tokens"),
        ({"special_tokens": [{"rank": -1, "token_str": "x"}]}, "rank -1"),
        # Their texts would be those of other ids in mistral-common.
        ({"special_tokens": [{"rank": 1, "token_str": "x"}]}, "rank 1, not 0"),
        ({"special_tokens": [{"rank": True, "token_str": "x"}]}, "rank True"),
        ({"special_tokens": [5]}, "the special token 5 is not an object"),
        ({"vocab": [7] * 300}, "entry 0 is 7, not an object"),
        ({"special_tokens": 5}, "not iterable"),
    ],
)
def test_a_malformed_file_is_named_with_its_fault(changes: dict[str, Any], message: str) -> None:
    content = json.dumps(tekken(None, NAMES, 10) | changes).encode()
    with pytest.raises(TokenizerLoadError, match=f"'Tekken file': not a Tekken file: .*{message}"):
        TekkenTokenizer(content)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"default_num_special_tokens": -1}, "default_num_special_tokens must be .*-1"),
        ({"default_num_special_tokens": 10**9}, "default_num_special_tokens must be .*1000000000"),
        ({"default_num_special_tokens": "5"}, "must be .*'5'"),
        ({"default_vocab_size": True}, "default_vocab_size must be .*True"),
        ({"default_vocab_size": 10}, "asks for 0 tokens"),
        ({"default_vocab_size": 20}, "254 bytes have no token"),
        ({"pattern": None}, "pattern a string"),
        ({"pattern": "("}, "[Pp]arenthes"),
        ({"version": "v99"}, "version 'v99'"),
        ({"version": "v11"}, "no special tokens; version v11"),
    ],
)
def test_wrong_settings_are_named(config: dict[str, Any], message: str) -> None:
    data = tekken(None, None if config.get("version") == "v11" else NAMES, 10)
    data["config"] |= config
    if config.get("default_vocab_size") == 20:
        data["vocab"][:10] = [entry(i, base64.b64encode(b"x" * i).decode()) for i in range(10)]
        message = "bytes have no token"
    with pytest.raises(TokenizerLoadError, match=f"'Tekken file': .*{message}"):
        TekkenTokenizer(json.dumps(data).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"a":' * 100_000, b"5"])
def test_a_file_that_is_not_a_json_object_raises_tokenizer_load_error(content: bytes) -> None:
    with pytest.raises(TokenizerLoadError, match="not a Tekken file"):
        TekkenTokenizer(content)

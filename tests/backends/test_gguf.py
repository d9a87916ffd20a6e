"""GGUF files: their tokenizers decode and encode as llama.cpp, and their metadata is bounded."""

from __future__ import annotations

import json
import math
import pickle
import re
import struct
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from streamdec import DecodeStream
from streamdec.backends import gguf_metadata
from streamdec.backends.gguf import GGUFTokenizer
from streamdec.backends.gguf_metadata import read_metadata
from streamdec.core.shared_tables import route_of
from streamdec.errors import EncodeError, StreamdecWarning, TokenizerLoadError
from tests.support.files import LLAMA_TOKENS, gguf, shared
from tests.support.files import gguf_tokenizer as made

pytestmark = pytest.mark.filterwarnings("ignore:.*, which is not a token")

IDS = {text: i for i, (text, _, _) in enumerate(LLAMA_TOKENS)}
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
FIRST = ["h", "e", "he", "Ġ", "Ġhe", "ü", "é", "<end>", "<tool ü>", "你"]
NOTHING = dict.fromkeys(("scores", "bos_token_id", "eos_token_id", "add_bos_token"))
GPT2: dict[str, Any] = {"model": "gpt2", **NOTHING}
BYTE_LEVEL: dict[str, Any] = GPT2 | {
    "pre": "gpt-2",
    "tokens": [*FIRST, *(letter for letter in ALPHABET if letter not in FIRST)],
    "token_type": [1, 1, 1, 1, 1, 4, 1, 3, 4, 4] + [1] * (256 - 5),
    "merges": ["h e", "Ġ he"],
    "bos_token_id": 7,
    "eos_token_id": 7,
    "add_bos_token": False,
}


# --- decoding -------------------------------------------------------------------------------------


def bytes_of(token_id: int) -> bytes:
    text, kind, _ = LLAMA_TOKENS[token_id]
    if kind in (2, 3, 5):
        return b""
    return bytes([int(text[3:5], 16)]) if kind == 6 else text.replace("\u2581", " ").encode()


@given(st.lists(st.integers(0, len(LLAMA_TOKENS) + 3)))
def test_all_bytes_are_decoded_at_once(ids: list[int]) -> None:
    ours = made()
    data = b"".join(bytes_of(i) for i in ids if i < len(LLAMA_TOKENS))
    expected = data.decode("utf-8", "replace").removeprefix(" ")
    assert ours.decode(ids) == expected
    stream = DecodeStream(ours)
    assert "".join(stream.step_batch(ids)) + stream.flush() == expected


def test_special_tokens_are_skipped_unless_they_are_asked_for() -> None:
    ours = made()
    ids = [IDS[text] for text in ("<s>", "▁hello", "<unk>", "<tool>", "<unused>", "</s>")]
    assert ours.decode(ids) == "hello<tool>"
    assert ours.decode(ids, skip_special_tokens=False) == "<s> hello<unk><tool></s>"
    assert ours.special_tokens.all == ("<s>", "</s>", "<unk>")
    assert made(add_space_prefix=False).decode(ids) == " hello<tool>"


def test_letters_of_added_tokens_of_a_byte_level_model_are_letters() -> None:
    """Where the rule of ``tokenizers`` would make them bytes."""
    ours = made(**BYTE_LEVEL)
    assert [ours.piece(i) for i in (4, 5, 6, 8, 9)] == [
        *(b" he", "ü".encode(), b"\xe9", "<tool ü>".encode(), "你".encode())
    ]
    assert ours.decode([3, 2, 7]) == " he"
    assert ours.encode("he he<end>").ids == (2, 4, 7)
    assert 7 not in ours.encode("he<end>", special="text").ids
    nameless = made(**BYTE_LEVEL | {"tokens": ["", *BYTE_LEVEL["tokens"][1:]]})
    assert nameless.decode([0]) == "[EMPTY_0]"  # as llama.cpp names it


LOWERS, STRIPS = "normalizer.lowercase", "normalizer.strip_accents"
BERT: dict[str, Any] = {
    "model": "bert",
    "tokens": ["[UNK]", "[CLS]", "[SEP]", "▁hello", "s", "▁there", "▁!", "<tool>"],
    "token_type": [3, 3, 3, 1, 1, 1, 1, 4],
    "unknown_token_id": 0,
    "cls_token_id": 1,
    "seperator_token_id": 2,
    **NOTHING,
}


def test_a_model_of_bert_encodes() -> None:
    ours = made(**BERT)
    assert ours.encode("Héllos there!").ids == (3, 4, 5, 6)
    assert ours.encode("hello", add_special_tokens=True).ids == (1, 3, 2)
    copy = pickle.loads(pickle.dumps(ours))  # of which the library would keep one text for an id
    assert copy.encode("Héllos there!").ids == (3, 4, 5, 6)
    assert ours.decode([3, 4]) == " hellos"
    assert made(**BERT, add_space_prefix=True).decode([3, 4]) == "hellos"
    assert ours.encode("hello[SEP]<tool>").ids == (3, 2, 7)
    assert 2 not in ours.encode("hello[SEP]", special="text").ids
    with pytest.raises(EncodeError, match=r"'\[SEP\]'"):
        ours.encode("hello[SEP]", special="forbid")


def test_words_of_bert_are_matched_as_in_llama_cpp() -> None:
    """U+2581 is a letter of the text as well, and tokens of each type continue words."""
    tokens = ["[UNK]", "[CLS]", "[SEP]", "▁a", "▁", "b", "▁▁c", "END", "▁STOP", "▁end"]
    ours = made(
        **BERT | {"tokens": tokens, "token_type": [3, 3, 3, 1, 1, 1, 1, 3, 3, 1], LOWERS: False}
    )
    rows = {
        "a▁ab▁": ["▁a", "▁a", "b", "▁"],
        "▁c": ["▁▁c"],
        "b▁▁c": ["▁", "b", "▁▁c"],
        "end END": ["▁end", "END"],
        "aEND": ["▁a", "END"],
        "STOP": ["▁STOP"],
        "end$": ["▁end", "[UNK]"],
        # A mark, a letter that was one, and a format character, newer than the library's.
        "a\u2e45a a\u166da": ["▁a", "[UNK]", "▁a", "[UNK]"],
        "a\u0890b": ["▁a", "b"],
    }
    for text, found in rows.items():
        assert [ours.id_to_token(i) for i in ours.encode(text)] == found
    special: Any
    for text, special, name in (("aEND", "text", "END"), ("STOP", "forbid", "▁STOP")):
        with pytest.raises(EncodeError, match=f"cannot encode as ordinary text: '{name}'"):
            ours.encode(text, special=special)


CASED = BERT | {
    "tokens": [
        *("[UNK]", "[CLS]", "[SEP]", "▁There", "▁e", "▁e\u0301"),
        *("▁ᄒ", "▁ᄒ\u1161\u11ab", "▁한"),
    ],
    "token_type": [3, 3, 3, *[1] * 6],
}


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        ({}, (0, 0, 4, 6, 7)),
        ({LOWERS: False}, (3, 0, 5, 8, 7)),
        ({LOWERS: False, STRIPS: True}, (3, 0, 4, 6, 7)),
        ({STRIPS: False}, (0, 0, 5, 8, 7)),
    ],
)
def test_a_model_of_bert_is_normalized_as_its_file_says(
    flags: dict[str, bool], ids: tuple[int, ...]
) -> None:
    """llama.cpp keeps the first letter of a Korean syllable, and never decomposes it further."""
    text = "There\x85there e\u0301\x0b한 \u1112\u1161\u11ab"
    assert made(**CASED | flags).encode(text).ids == ids


def test_a_model_of_bert_always_has_tokens_around_a_text() -> None:
    flags = {"add_bos_token": False, "add_sep_token": False, "add_eos_token": True}
    assert made(**BERT | flags).encode("hello", add_special_tokens=True).ids == (1, 3, 2)
    assert made(**BERT | {"bos_token_id": 5}).encode("", add_special_tokens=True).ids == (5, 2)
    assert made(**BERT).encode("hello" + 150 * "s").ids == (3, *[4] * 150)


@pytest.mark.parametrize("kind", [1, 3, 4])
@pytest.mark.parametrize(
    ("texts", "skipped"),
    [
        (["<|im_end|>", "</s>", "[PAD]", "<|end|>"], ["<|im_end|>", "</s>", "[PAD]", "<|end|>"]),
        (["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"], []),
        (["<|return|>", "<|call|>", "<|end|>"], ["<|return|>", "<|call|>"]),
        (["<|flush|>", "<|calls|>", "<|end|>"], ["<|flush|>", "<|calls|>"]),
        (["<|tool_response>", "</s>"], ["<|tool_response>"]),
    ],
)
def test_some_names_say_whether_a_token_is_skipped(
    kind: int, texts: list[str], skipped: list[str]
) -> None:
    """Whatever its type is, as in llama.cpp."""
    size = len(BYTE_LEVEL["tokens"])
    ours = made(
        **BYTE_LEVEL
        | {
            "tokens": [*BYTE_LEVEL["tokens"], *texts],
            "token_type": [*BYTE_LEVEL["token_type"], *[kind] * len(texts)],
        }
    )
    ids = range(size, size + len(texts))
    assert [ours.decode([i], skip_special_tokens=False) for i in ids] == texts
    assert ours.decode([*ids]) == "".join(text for text in texts if text not in skipped)
    is_found = [len(ours.encode(text).ids) == 1 for text in texts]
    assert is_found == [text != "</s>" or text in skipped for text in texts]


def test_a_token_of_a_gap_is_skipped_unless_the_file_says_which_it_is() -> None:
    changes = BYTE_LEVEL | {"tokens": ["<|file_sep|>", *BYTE_LEVEL["tokens"][1:]]}
    assert made(**changes).is_skipped(0)
    assert not made(**changes, fim_sep_token_id=5).is_skipped(0)
    assert made(**changes, fim_sep_token_id=5000).is_skipped(0)
    changes["tokens"][:2] = ["<PRE>", "<|fim_prefix|>"]
    with pytest.warns(StreamdecWarning, match=r"skips one of .* '<\|fim_prefix\|>', '<PRE>'"):
        made(**changes)
    changes["tokens"][:2] = ["</s>", "<|plamo:eos|>"]
    assert [made(**changes | {"eos_token_id": i}).is_skipped(0) for i in (1, 7)] == [False, True]


def test_a_token_of_the_undefined_type_has_no_text() -> None:
    ours = made(**BYTE_LEVEL | {"token_type": [0, *BYTE_LEVEL["token_type"][1:]]})
    assert ours.decode([0, 1]) == "e"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_type": [1] * 261}, "its token '<tool ü>' is not byte-level"),
        ({"eos_token_id": None}, r"no eos_token_id, and llama.cpp takes the token 11 .*: '\"'"),
        ({"bos_token_id": None, "add_bos_token": True}, "no bos_token_id, and llama.cpp"),
    ],
)
def test_what_llama_cpp_reads_otherwise_is_warned_of(changes: dict[str, Any], message: str) -> None:
    with pytest.warns(StreamdecWarning, match=message):
        made(**BYTE_LEVEL | changes)


# --- encoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "tokens", "message"),
    [
        ([-1.0, -1.0, -2.0], ["ab", "bc", "▁▁"], "'ab' and 'bc' have the same score"),
        ([-1.0, -2.0, -3.0], ["ab", "ll", "▁▁"], "'ll' has a letter without a token"),
        ([math.nan, -2.0, -3.0], ["ab", "bc", "▁▁"], "its token 'ab' is not a number"),
        ([-1.0, -3.0, -3.0], ["ab", "▁▁", "▁▁▁"], ""),
    ],
)
def test_merges_that_may_differ_are_warned_of(
    scores: list[float], tokens: list[str], message: str
) -> None:
    base = [*("a", "b", "c", "▁"), *(f"<0x{byte:02X}>" for byte in range(256))]
    changes = {
        "tokens": [*base, *tokens],
        "token_type": [*[1] * 4, *[6] * 256, *[1] * len(tokens)],
        "scores": [*[-9.0] * len(base), *scores],
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert made(**changes).encodes == "yes"
    texts = [str(warning.message) for warning in found if "some texts" in str(warning.message)]
    assert [message in text for text in texts] == [True] * bool(message)


SPECIAL = ["</s>", "<a>", "<a><b>", "<b><c><d>", " <x>", "END", "<mask>", "[MASK]", "<s>"]
BESIDE = BYTE_LEVEL | {
    "tokens": [*ALPHABET, "he", *SPECIAL],
    "token_type": [1] * 257 + [3, 3, 3, 3, 4, 3, 3, 3, 3],
    "merges": ["h e"],
}


@pytest.mark.parametrize(
    ("model", "pre", "text", "special", "found"),
    [
        ("", "gpt-2", "<a><b><c><d>", "parse", ["<a>", "<b><c><d>"]),  # the longest comes first
        ("", "gpt-2", "<a><b><c>", "parse", ["<a><b>", *"<c>"]),
        ("", "gpt-2", "<a> <x>", "text", [*"<a>", " <x>"]),
        ("", "llama-bpe", "heENDa", "parse", ["he", "END", "a"]),
        ("", "llama-bpe", "heENDa", "text", ["he", *"ENDa"]),
        ("", "gpt-2", " </s> <mask>", "parse", ["Ġ", "</s>", "Ġ", "<mask>"]),
        ("My Phi-3", "gpt-2", "<s> </s> \r\xa0", "parse", ["<s>", "Ġ", "</s>", *"Âł"]),
        ("Modern-BERT", "gpt-2", "\xa0 \n[MASK] ", "parse", ["Â", "ł", "[MASK]", "Ġ"]),
        ("", "jina-v2-code", "a \n<mask> ", "parse", ["a", "<mask>", "Ġ"]),
    ],
)
def test_special_tokens_are_found_as_in_llama_cpp(
    model: str, pre: str, text: str, special: Any, found: list[str]
) -> None:
    ours = made({"general.name": model}, **BESIDE | {"pre": pre})
    assert [ours.id_to_token(i) for i in ours.encode(text, special=special)] == found


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["<a<b", "a<bc", "<a>a"], r"'<a<b' \(257\) and 'a<bc' \(258\) overlap"),
        (["<|>", "a>a>", "a>a<"], r"'a>a>' \(258\) and 'a>a<' \(259\) overlap"),
        (["<|>", "a>a<", "a>a>"], r"'a>a>' \(259\) and 'a>a<' \(258\) overlap"),
        (["<a<b", "b<abc", "<a>a"], ""),
    ],
)
def test_special_tokens_without_a_defined_order_are_warned_of(names: list[str], told: str) -> None:
    """llama.cpp sorts them by length with a sort that is not stable."""
    tokens = [*ALPHABET, "he", *names]
    changes = {"tokens": tokens, "token_type": [1] * 257 + [3] * 3}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert made(**BESIDE | changes).encodes == "yes"
    texts = [str(each.message) for each in found]
    assert [bool(re.search(told, text)) for text in texts] == [True] * bool(told)
    tokens[-1] = 257 * "a"
    assert "a special token of 257 characters" in made(**BESIDE | changes).encodes


def test_the_first_of_equal_merges_counts() -> None:
    changes = {"tokens": [*ALPHABET, "he", "ea"], "merges": ["h e", "e a", "h e"]}
    ours = made(**BESIDE | {"token_type": [1] * 258} | changes)
    assert ours.encode("hea").tokens == ("he", "a")


def test_only_bos_and_eos_are_added_to_a_byte_level_model() -> None:
    ours = made(**BYTE_LEVEL | {"add_sep_token": True, "seperator_token_id": 5})
    assert ours.encode("he", add_special_tokens=True).ids == (2,)


def test_a_model_of_llama_encodes() -> None:
    ours = made()
    assert ours.encode("hello").tokens == ("▁hello",)
    assert ours.encode("hello", add_special_tokens=True).tokens == ("<s>", "▁hello")
    assert ours.encode("hello</s>").tokens == ("▁hello", "</s>")
    assert ours.decode(ours.encode("😀 hello 你").ids) == "😀 hello 你"
    with pytest.raises(EncodeError, match="'</s>'"):
        ours.encode("h</s>", special="forbid")
    texts, types, scores = map(list, zip(*LLAMA_TOKENS, strict=True))
    scores = [float("inf") if text == "▁hello" else score for text, _, score in LLAMA_TOKENS]
    more: dict[str, Any] = {
        "tokens": [*texts, "[PAD1]", "[PAD2]"],
        "token_type": [*types, 2, 2],  # padding of the unknown type
        "scores": [*scores, 0.0, 0.0],
    }
    assert made(**more).encode("hello").ids == ours.encode("hello").ids


def test_roles_without_a_token_are_those_of_llama_cpp() -> None:
    with pytest.warns(StreamdecWarning, match="the id of the bos_token is 99999, which is not"):
        ours = made(bos_token_id=99999, eos_token_id=None, unknown_token_id=None)
    special = ours.special_tokens
    assert (special.bos_token, special.eos_token, special.unk_token) == ("<s>", "</s>", "<unk>")


NO_TRIAL: dict[str, tuple[dict[str, Any], str]] = {
    "merges of unknown tokens": (BYTE_LEVEL | {"merges": ["x yy"]}, "yy"),
    "no merges": (BYTE_LEVEL | {"merges": None}, "it has no merges"),
    "bytes without a token": (
        BYTE_LEVEL | {"tokens": FIRST, "token_type": BYTE_LEVEL["token_type"][:10]},
        "is encoded as tokens of other text",
    ),
    "a token with two ids": (
        {"tokens": ["<unk>", "a", "a"], "token_type": [2, 1, 1], "scores": [0.0, 0.0, 0.0]},
        "the token 'a' has two ids",
    ),
    "no unknown token": (
        {"model": "bert", "tokens": ["[CLS]", "▁hello"], "token_type": [3, 1], "scores": None},
        "it has no unknown token",
    ),
    "no scores": ({"scores": None}, "it has 0 scores for"),
    "no byte tokens": (
        {"tokens": ["<unk>", "▁a"], "token_type": [2, 1], "scores": [0.0, 0.0]},
        "is encoded as tokens of other text",
    ),
}


@pytest.mark.parametrize("name", NO_TRIAL)
def test_an_encoder_that_fails_the_trial_is_not_used(name: str) -> None:
    changes, fault = NO_TRIAL[name]
    with pytest.raises(EncodeError, match=f"can decode but not encode: .*{fault}.*split as '"):
        made(**changes).encode("he")


def test_an_unknown_way_of_splitting_is_warned_of_and_refused() -> None:
    with pytest.warns(StreamdecWarning, match="unknown pre-tokenizer 'unheard'"):
        unheard = made(**BYTE_LEVEL | {"pre": "unheard"})
    with pytest.raises(EncodeError, match="split as 'unheard'"):
        unheard.encode("he")
    with pytest.raises(TokenizerLoadError, match="split as 'whitespace'"):
        made(**BYTE_LEVEL | {"pre": "whitespace"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "plamo2"}, "tokenizer 'plamo2'; expected one of llama, gpt2, bert, t5, rwkv"),
        ({"model": None}, "tokenizer None"),
        ({"model": ["llama"]}, r"tokenizer \['llama'\]"),
        ({"tokens": None}, "has no tokens"),
        ({"tokens": []}, "has no tokens"),
        ({"tokens": [1, 2]}, "tokens is not a list of strings"),
        ({"tokens": "text"}, "tokens is not a list of strings"),
        ({"tokens": ["\udcff"], "token_type": [1]}, r"item 0 of .*tokens is not UTF-8"),
        ({"token_type": [1]}, "1 token types"),
        ({"token_type": 5}, "token_type is not a list of integers"),
        ({"tokens": ["<0xZZ>"], "token_type": [6]}, "must be spelled like <0xE4>, not '<0xZZ>'"),
        ({"tokens": ["<0x+3>"], "token_type": [6]}, r"not '<0x\+3>'"),
        ({"tokens": ["a"], "token_type": [6]}, "not 'a'"),
        ({"merges": 5}, "merges is not a list"),
        ({"scores": 5}, "scores is not a list of numbers"),
        ({"scores": ["a"]}, "scores is not a list of numbers"),
        ({"scores": [True]}, "scores is not a list of numbers"),
        ({"add_space_prefix": "false"}, "add_space_prefix is 'false', not a bool"),
        ({"add_bos_token": 1}, "add_bos_token is 1, not a bool"),
        ({"tokens": ["a", "b"], "token_type": [1, -1]}, "a token has the unknown type -1"),
        ({"tokens": ["a", "b"], "token_type": [1, 7]}, "a token has the unknown type 7"),
        *(
            ({"model": "rwkv", "tokens": [text], "token_type": [1]}, "has a malformed escape")
            for text in ("\\x4A", "\\xz0", "a\\")
        ),
    ],
)
def test_a_malformed_file_is_named_with_its_fault(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerLoadError, match=rf"file\.gguf': .*{message}"):
        made(**changes)


REAL = {path.parent.name: path for path in shared("gguf-*/*.gguf")}


def pairs(path: Path) -> list[tuple[str, list[int]]]:
    """Texts, and the ids that llama.cpp gave for them."""
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = path.with_suffix(".gguf.out").read_text("utf-8").split("\n")
    return [(text, [*map(int, line.split())]) for text, line in zip(texts, lines, strict=False)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_files_encode_and_decode_as_llama_cpp(name: str) -> None:
    ours = GGUFTokenizer(REAL[name])
    assert route_of(ours) == "bytes"
    for text, ids in pairs(REAL[name]):
        assert list(ours.encode(text, special="text")) == ids
        # The one of bert lowers letters and drops accents before it encodes.
        assert name == "gguf-bert-bge" or ours.decode(ids) == text


# --- ways of cutting ------------------------------------------------------------------------------

SAMPLE = [
    "Hello, world! It's 'RE we'll DON'T 123456 1,000.5\n\n  x\t\r\n y   ",
    "Größe naïve café e\u0301 straße ﬁ ½ Привет, мир. こんにちは世界。你好，世界！안녕 नमस्ते",
    "def f(x):\n\treturn {'a': [x ** 2]}  # ok\n\n\nclass A_b: pass != <=> ~~~ $x^2$ a|b",
    "😀👍🏽👩‍👩‍👧‍👦 🇪🇺 camelCase HTTPServer ١٢٣ https://a.b/c?d=%20 ...\r\n\r\n",
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("folder", "pre"),
    [("gpt2", "gpt-2"), ("phi-2", "phi-2"), ("deepseek-v3", "deepseek-v3"), ("qwen3", "qwen2")],
)
def test_a_text_is_cut_as_by_the_tokenizer_of_a_real_model(folder: str, pre: str) -> None:
    """With the first of its merges."""
    for path in shared(f"{folder}/tokenizer.json"):
        data = json.loads(path.read_text("utf-8-sig")) | {"added_tokens": []}
        merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]][:4_000]
        tokens = [*dict.fromkeys([*ALPHABET, *(merge.replace(" ", "") for merge in merges)])]
        data["model"] |= {"vocab": {text: i for i, text in enumerate(tokens)}, "merges": merges}
        theirs = Tokenizer.from_str(json.dumps(data))
        parts = {"tokens": tokens, "token_type": [1] * len(tokens), "merges": merges}
        ours = made(**GPT2 | {"pre": pre, "bos_token_id": 0, "eos_token_id": 0, **parts})
        for text in [*SAMPLE, "".join(SAMPLE), "".join(SAMPLE)[::-1]]:
            text = unicodedata.normalize("NFC", text)  # as Qwen's does, and llama.cpp does not
            assert list(ours.encode(text)) == theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("names", "text", "merge", "is_one_part"),
    [
        ("gpt-4o tekken", "a\u0301<b", "< b", False),  # \u0301< is a part
        ("llama-bpe qwen2 qwen35 gpt-4o bailingmoe seed-coder", "'\u017fx", "¿ x", True),
        ("kimi-k2", "camelCase", "l C", True),
        ("gpt-4o tekken", "camelCase", "l C", False),
        ("gpt-4o tekken", "!\n/", "Ċ /", True),
        ("deepseek-coder", "\u2028<", "¨ <", True),
    ],
)
def test_a_text_is_cut_as_in_llama_cpp(
    names: str, text: str, merge: str, *, is_one_part: bool
) -> None:
    """Whose regexes are not those of the models' own tokenizers."""
    changes = {"tokens": [*ALPHABET, merge.replace(" ", "")], "token_type": [1] * 257}
    for pre in names.split():
        ours = made(**BYTE_LEVEL | changes | {"merges": [merge], "pre": pre})
        assert (256 in ours.encode(text)) == is_one_part


RWKV = {
    "model": "rwkv",
    "tokens": ["<s>", *(f"\\x{byte:02x}" for byte in range(256)), "he", r"\n\n", r"\t\\"],
    "token_type": [3] + [1] * 259,
    **NOTHING,
}


def test_a_model_of_rwkv_decodes() -> None:
    ours = made(**RWKV)
    assert route_of(ours) == "bytes"
    pieces = [b"\0", b"\xff", b"he", b"\n\n", b"\t\\"]
    assert [ours.piece(i) for i in (1, 256, 257, 258, 259)] == pieces
    for text in SAMPLE:
        assert ours.decode([1 + byte for byte in text.encode()]) == text
    with pytest.raises(EncodeError, match=r"can decode but not encode: .*of the kind rwkv"):
        ours.encode("hello")


# --- metadata -------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(width=32, allow_nan=False),
)
LISTS = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=5),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5),
    st.lists(st.booleans(), max_size=5),
    st.lists(st.floats(width=32, allow_nan=False), max_size=5),
)


def read(content: bytes, path: Path, wanted: str = "") -> dict[str, Any]:
    (path / "file.gguf").write_bytes(content)
    return read_metadata(path / "file.gguf", lambda key: key.startswith(wanted))


@given(
    st.dictionaries(st.text("ab.", max_size=4), st.one_of(SCALARS, LISTS), max_size=6),
    st.sampled_from("<>"),
    st.sampled_from([2, 3]),
)
def test_written_values_are_read_unchanged(
    tmp_path: Path, values: dict[str, Any], order: str, version: int
) -> None:
    content = gguf(values.items(), order, version) + b"tensors"
    assert read(content, tmp_path) == values
    assert read(content, tmp_path, "a") == {k: v for k, v in values.items() if k[:1] == "a"}


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def head(version: int = 3, keys: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, keys)


KEY = number(1) + b"k"
LIST = KEY + struct.pack("<I", 9)
DEEP = b"".join(struct.pack("<IQ", 9, 1) for _ in range(100_000))


@pytest.mark.parametrize("wanted", ["", "other"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "only 0 are left"),
        (b"GGML" + b"\0" * 20, "does not begin with GGUF"),
        (head(version=1), "version 1"),
        (head(version=2**31), "version 128"),
        (head(version=0), "version 0"),
        (head(keys=2**64 - 1), "the file has 18446744073709551615 keys, and at most"),
        (head(keys=2), "a key needs 8 bytes, but only 0"),
        (head() + number(2**63) + b"k" * 20, "a key needs 9223372036854775808 bytes"),
        (head() + number(10**6) + b"k" * 20, "a key needs 1000000 bytes"),
        (head() + KEY + struct.pack("<I", 13) + b"x" * 20, "type 13"),
        (head() + KEY + struct.pack("<I", 8) + number(2**40), "1099511627776 bytes"),
        (head() + LIST + struct.pack("<I", 4) + number(2**62), "has 4611686018427387904 items"),
        (head() + LIST + struct.pack("<I", 10) + number(9) + b"x" * 9, "only 9 are left"),
        (head() + LIST + struct.pack("<I", 8) + number(2**20), "an item of 'k' needs 8 bytes"),
        (head() + LIST + struct.pack("<I", 77) + number(1) + b"x", "type 77"),
        (head() + LIST + DEEP, "lists are nested too deeply"),
    ],
)
def test_malformed_values_are_named(
    content: bytes, reason: str, wanted: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerLoadError, match=reason) as caught:
        read(content, tmp_path, wanted)
    assert len(str(caught.value)) < 400


def test_a_key_twice_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match="twice"):
        read(gguf([("a", 1), ("a", 2)]), tmp_path)
    with pytest.raises(TokenizerLoadError, match="No such file"):
        read_metadata(tmp_path / "none", bool)


def test_items_are_counted_over_all_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_metadata, "MAX_ITEMS", 10)
    content = gguf([("a", ["x"] * 4), ("b", ["x"] * 4)])
    assert read(content, tmp_path) == {"a": ["x"] * 4, "b": ["x"] * 4}
    for wanted in ("", "b", "none"):
        with pytest.raises(TokenizerLoadError, match="'b' has 5 items, and at most 10"):
            read(gguf([("a", ["x"] * 4), ("b", ["x"] * 5)]), tmp_path, wanted)


@pytest.mark.parametrize("kept", [1, 2, 3, 10, 11, 23])
def test_a_file_that_shrinks_while_it_is_read(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is cut after its size was read."""
    whole = gguf([("k", ["abc", "de"])])
    honest = gguf_metadata._Reader.__init__
    monkeypatch.setattr(
        gguf_metadata._Reader, "__init__", lambda self, file, _: honest(self, file, len(whole))
    )
    with pytest.raises(TokenizerLoadError, match=r"file\.gguf'.*the file ends inside"):
        read(whole[:-kept], tmp_path)

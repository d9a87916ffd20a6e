"""Folders whose vocabulary is not in a tokenizer.json; test_class_pipelines.py has the goldens."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec import load_tokenizer
from streamdec.errors import MissingExtraError, StreamdecWarning, TokenizerLoadError
from streamdec.folders.assembled import from_sentencepiece
from streamdec.folders.sentencepiece_proto import ModelProto
from streamdec.tokenizers import HybridTokenizer, SentencePieceTokenizer
from tests.support.files import sentencepiece, write_json
from tests.support.made_folders import without_transformers

pytest.importorskip("sentencepiece")

OPTIONS = {"byte_fallback": True, "vocab_size": 600, "control_symbols": ["[INST]"]}


def folder_of(path: Path, model: bytes | None = None, **config: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "tokenizer.model").write_bytes(model or sentencepiece(**OPTIONS))
    write_json(path / "tokenizer_config.json", config)
    return path


def special(content: str, special: bool = True) -> dict[str, Any]:
    return {"content": content, "special": special, "normalized": False}


@example(data=b"\x0a\x05\x0a\x01a\x12\x00")  # a score of no bytes
@given(data=st.binary(max_size=60) | st.integers(0, 10**6).map(lambda seed: _broken(seed)))
def test_a_broken_model_is_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):  # UnicodeDecodeError is one
        ModelProto.parse(data)


def _broken(seed: int) -> bytes:
    draw, data = random.Random(seed), bytearray(_MODEL)
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data[: draw.randint(1, len(data))])


_MODEL = sentencepiece(vocab_size=60)


def test_added_tokens_of_a_sentencepiece_folder(tmp_path: Path) -> None:
    """What the files beside a tokenizer.model declare exists, decodes and is encoded."""
    size = len(ModelProto.parse(sentencepiece(**OPTIONS)).pieces)
    tokens = {str(size): special("<|im_end|>"), str(size + 1): special("<tool>", special=False)}
    adds: dict[str, Any] = {"eos_token": "<|im_end|>", "add_bos_token": True, "add_eos_token": True}
    folder = folder_of(tmp_path, added_tokens_decoder=tokens, **adds)
    assert isinstance(load_tokenizer(folder / "tokenizer.model"), SentencePieceTokenizer)
    alone = load_tokenizer(folder, apply_tokenizer_config=False)
    assert isinstance(alone, SentencePieceTokenizer)
    tokenizer = load_tokenizer(folder, fast="off")
    assert isinstance(tokenizer, HybridTokenizer)
    assert tokenizer.report.format == "sentencepiece"
    assert tokenizer.special_tokens.eos_token == "<|im_end|>"
    ids = tokenizer.encode("hello<tool> world<|im_end|>").ids
    assert size in ids
    assert size + 1 in ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == "hello<tool> world<|im_end|>"
    assert tokenizer.decode(ids) == "hello<tool> world"
    around = tokenizer.encode("hello", add_special_tokens=True).ids
    assert around == (tokenizer.token_to_id("<s>"), *tokenizer.encode("hello").ids, size)


@pytest.mark.parametrize(
    "config", [{"model_type": "xlm-roberta"}, {"tokenizer_class": "XLMRobertaTokenizer"}]
)
def test_a_class_that_only_the_model_names_is_followed(config: Any, tmp_path: Path) -> None:
    """Its ids are not those of the model file."""
    (tmp_path / "tokenizer.model").write_bytes(_MODEL)
    write_json(tmp_path / "config.json", config)
    what = "the class XLMRobertaTokenizer makes its tokenizer"
    with without_transformers(), pytest.raises(MissingExtraError, match=what):
        load_tokenizer(tmp_path)
    write_json(tmp_path / "config.json", {"tokenizer_class": "NobodyKnowsTokenizer"})
    with pytest.warns(StreamdecWarning, match="has no such class"):
        load_tokenizer(tmp_path)


EXTRA, OLDER = "extra_special_tokens", "additional_special_tokens"


@pytest.mark.parametrize(
    ("config", "text"),
    [({}, ""), ({OLDER: []}, "[INST]"), ({EXTRA: {"x_token": "<x>"}, OLDER: ["<y>"]}, "")],
)
def test_a_list_of_extra_tokens_replaces_the_control_pieces(
    config: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """As in transformers, also if it is empty. Beside a dict the older list is ignored."""
    tokenizer = load_tokenizer(folder_of(tmp_path, **config), fast="off")
    assert tokenizer.decode([tokenizer.token_to_id("[INST]") or 0]) == text
    assert tokenizer.token_to_id("<y>") is None


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_declared_token_replaces_a_piece_of_a_bpe_model(kind: str, tmp_path: Path) -> None:
    model = sentencepiece(vocab_size=60, model_type=kind)
    folder = folder_of(tmp_path, model, added_tokens_decoder={"20": special("<tool>")})
    if kind == "bpe":
        assert load_tokenizer(folder).token_to_id("<tool>") == 20
    else:
        with pytest.warns(StreamdecWarning, match="1 in other files contradict it"):
            loaded = load_tokenizer(folder)
        assert loaded.token_to_id("<tool>") == loaded.vocab_size - 1 > 20


@pytest.mark.filterwarnings("ignore:.*auto_map names code")
def test_declared_ids_win_where_code_makes_the_tokenizer(tmp_path: Path) -> None:
    """A declared token replaces a piece (InternLM2), and no id is invented."""
    size = len(ModelProto.parse(sentencepiece(**OPTIONS)).pieces)
    code: dict[str, Any] = {"auto_map": {"AutoTokenizer": ["tokenization_x.X", None]}}
    tokens = {str(size - 2): special("<|im_end|>")}
    folder = folder_of(tmp_path, added_tokens_decoder=tokens, pad_token="<none>", **code)
    tokenizer = load_tokenizer(folder, fast="off")
    assert tokenizer.token_to_id("<|im_end|>") == size - 2
    assert tokenizer.token_to_id("<none>") is None
    assert tokenizer.special_tokens.pad_token is None
    assert tokenizer.vocab_size == size
    adds: dict[str, Any] = {"eos_token": "<none>", "add_eos_token": True}
    found = load_tokenizer(folder_of(tmp_path, **adds, **code), fast="off")
    assert found.encode("hello", add_special_tokens=True) == found.encode("hello")
    tokens[str(size + 7)] = special("<far>")
    with pytest.raises(TokenizerLoadError, match=f"id {size + 7} for '<far>'"):
        load_tokenizer(folder_of(tmp_path, added_tokens_decoder=tokens, **code), fast="off")


def test_a_piece_that_takes_too_long_is_rejected(tmp_path: Path) -> None:
    piece = b"a" * 5000
    field = b"\x0a" + b"\x88\x27" + piece
    model = b"\x0a" + bytes([len(field) & 0x7F | 0x80, len(field) >> 7]) + field
    is_bpe = b"\x12\x02\x18\x02"
    folder = folder_of(tmp_path, model + is_bpe)
    with pytest.raises(TokenizerLoadError, match="a piece of 5000 characters"):
        from_sentencepiece(folder / "tokenizer.model")

"""``python -m fuzz.loading``: check that any file is a correct tokenizer or a clear error.

An input is the content of a file of any format. The allowed errors are TokenizerLoadError and its
subclasses, and TokenizerLibraryError while decoding. A warning is not a finding. The command also
measures each input: more than MOST_SECONDS of CPU time or MOST_MEGABYTES is a finding.
"""

from __future__ import annotations

import base64
import json
import resource
import struct
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import DecodeStream, load_tokenizer
from streamdec.backends import gguf, sentencepiece, tekken, tiktoken  # noqa: F401
from streamdec.errors import RewriteError, TokenizerLibraryError, TokenizerLoadError
from streamdec.loading.detect import detect_format
from streamdec.protocols import ByteFallback
from streamdec.tokenizers import LoadedTokenizer
from tests.support import files

CHECKED = 48
"""The number of ids that are streamed with a tokenizer."""
MOST_SECONDS = 5.0
MOST_MEGABYTES = 200
"""The most that an input, which has at most a few thousand bytes, may cost."""


class CostError(AssertionError):
    """An input takes too much time or memory."""


def measured(data: bytes) -> None:
    """Test the law, and measure its cost."""
    began, before = time.process_time(), _peak()
    law(data)
    seconds, megabytes = time.process_time() - began, _peak() - before
    if seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES:
        raise CostError(f"{seconds:.1f} s and {megabytes} MB for {len(data)} bytes")


def _peak() -> int:
    """Return the peak memory of the process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of the process, which is removed at its end."""
    return tempfile.TemporaryDirectory(prefix="streamdec-fuzz-")


def law(data: bytes) -> None:
    path = Path(_folder().name) / "file"
    path.write_bytes(data)
    try:
        found = detect_format(path)
        assert found.path == path
        assert found.description
        tokenizer = load_tokenizer(path, fast="off", encoding=_encoding(found.format))
    except TokenizerLoadError as error:
        said = str(error)
        assert str(path) in said
        assert len(said) < 2_000
        return
    assert found.format != "unsupported"
    check_decoding(tokenizer)


def check_decoding(tokenizer: LoadedTokenizer) -> None:
    """Check that a stream gives the text of ``decode``, unless the library fails."""
    rule = tokenizer.rules and tokenizer.rules.rule
    runs: dict[str, Any] = {"byte_fallback": "exact"} if isinstance(rule, ByteFallback) else {}
    ids = [*tokenizer.sample_ids()][:CHECKED]
    for part in (ids, ids[::-1], [*ids[:3] * 3, 2**32 - 1]):
        try:
            stream = DecodeStream(tokenizer, **runs)
            text = stream.feed(part) + stream.flush()
            whole = tokenizer.decode(part)
        except (TokenizerLibraryError, RewriteError):
            continue
        if stream.route == "bytes":
            assert text == whole


def _encoding(kind: str) -> str | None:
    """Return an encoding, because a rank file does not say how texts are split."""
    return "cl100k_base" if kind == "tiktoken" else None


# --- seeds ----------------------------------------------------------------------------------------

PIECES = ["<unk>", "<s>", "▁a", "b", "<0xE4>", "<0xBD>", "<0xA0>", "é", "##c", "d</w>", "▁"]
CHAIN = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]
DOUBLE = {"type": "Replace", "pattern": {"String": "b"}, "content": "bb"}
DECODERS: dict[str, Any] = {
    "fallback": {"type": "Sequence", "decoders": CHAIN},
    "byte-level": {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    },
    "metaspace": {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "always",
        "split": True,
    },
    "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "suffix": {"type": "BPEDecoder", "suffix": "</w>"},
    "ctc": {"type": "CTC", "pad_token": "<s>", "word_delimiter_token": "▁", "cleanup": True},
    "doubling": {"type": "Sequence", "decoders": [DOUBLE] * 4},
    "none": None,
}


def _tokenizer_json(decoder: Any) -> bytes:
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": 0, "content": "<unk>", **added, "special": True},
            {"id": 12, "content": "<tool>", **added, "special": False},
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": decoder,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    return json.dumps(data, ensure_ascii=False).encode()


def _unigram() -> bytes:
    data = json.loads(_tokenizer_json(DECODERS["metaspace"]))
    scores = [[piece, -float(number)] for number, piece in enumerate(PIECES)]
    data["model"] = {"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": False}
    return json.dumps(data).encode()


def _sentencepiece(kind: int) -> bytes:
    """Return a ModelProto: pieces with score and type, and the type of the model."""
    types = [2, 3, 1, 1, *[6] * 3, 1, 1, 1, 1]
    pieces = b"".join(
        _field(1, _field(1, text.encode()) + b"\x15" + struct.pack("<f", -number) + bytes([24, of]))
        for number, (text, of) in enumerate(zip(PIECES, types, strict=True))
    )
    trainer = bytes([24, kind])
    normalizer = _field(1, b"identity") + bytes([24, 1, 32, 1, 40, 1])
    return pieces + _field(2, trainer) + _field(3, normalizer)


def _field(number: int, data: bytes) -> bytes:
    return bytes([8 * number + 2, len(data)]) + data


def _gguf(model: str, **changes: Any) -> bytes:
    types = [2, 3, 1, 1, *[6] * 3, 1, 1, 1, 1]
    scores = [-float(n) for n in range(len(PIECES))]
    values = {"model": model, "tokens": PIECES, "token_type": types, "scores": scores} | changes
    return files.gguf([(f"tokenizer.ggml.{key}", value) for key, value in values.items()])


def seeds() -> dict[str, bytes]:
    tokens = [b"a", b" b", "你".encode()[:2], b"\xa0", b"ab"]
    small = files.tekken(tokens, special_tokens=["<unk>", "<s>"], num_special=2)
    ranks = b"".join(b"%s %d\n" % (base64.b64encode(t), n) for n, t in enumerate(tokens))
    made = {f"tokenizer-{name}.json": _tokenizer_json(each) for name, each in DECODERS.items()}
    return made | {
        "tokenizer-unigram.json": _unigram(),
        "ranks.tiktoken": ranks,
        "tekken.json": json.dumps(small).encode(),
        "unigram.model": _sentencepiece(1),
        "bpe.model": _sentencepiece(2),
        "llama.gguf": _gguf("llama"),
        "gpt2.gguf": _gguf("gpt2", pre="gpt-2", merges=["a b"], scores=[]),
        "bert.gguf": _gguf("bert"),
        "config.json": b'{"tokenizer_class": "X", "model_max_length": 1}',
        "pointer": b"version https://git-lfs.github.com/spec/v1\n",
    }


WORDS = [*DECODERS.values(), *CHAIN, *PIECES, "BPE", "WordPiece", "WordLevel", "Unigram", "Fuse"]
WORDS += [
    {"Regex": "(a|b)+"},
    {"String": ""},
    *range(16),
    2**31,
    2**32 - 1,
    -1,
]
TARGET = Target("loading", law, seeds, json_edit(WORDS))

if __name__ == "__main__":
    sys.exit(main(replace(TARGET, law=measured)))

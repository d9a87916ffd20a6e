"""Small tokenizer files of every format, made here, so that tests need no download."""

from __future__ import annotations

import base64
import json
import lzma
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streamdec.backends.gguf import GGUFTokenizer
from streamdec.backends.sentencepiece import SentencePieceTokenizer
from streamdec.backends.tekken import TekkenTokenizer
from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.tokenizers.encodings import EncodingSpec

SHARED = Path(__file__).resolve().parents[3] / "shared" / "tokenizers"
"""The folder of real tokenizers beside the repository; it may be missing."""

LOADING = Path(__file__).resolve().parents[2] / "streamdec" / "loading"

_UNPACKED: dict[Path, TemporaryDirectory[str]] = {}
"""The folders of unpacked files: those beside the repository are compressed."""

MERGED = [
    *(b" t", b"he", b" the", b"ll", b"llo", b"hello", b" hello", b"\xc3\xa9", b"\xe4\xbd"),
    *("你".encode(), "你好".encode(), b"\xf0\x9f", "😀".encode(), b"  ", b"\xa9\xff", b"\n\n"),
]
"""Tokens of more than one byte, in the order in which they are merged."""


def shared(pattern: str) -> list[Path]:
    """The real files that match, where they are at hand."""
    return sorted(SHARED.glob(pattern))


def is_shared(value: Any) -> bool:
    """Whether ``value`` is a path beside the repository, or that of an unpacked file."""
    return isinstance(value, Path) and not {SHARED.parent, *_UNPACKED}.isdisjoint(value.parents)


def shared_files() -> list[Path]:
    """A real file of each format but ``tokenizer.json``, where they are at hand."""
    names = ["mistral-7b-sp-v1/*.model", "sentencepiece-test-model/*.model", "*/*.tiktoken"]
    names += ["kimi-k2/*.model", "*/*.model.v3", "*/*.gguf"]
    # One that stands beside a tokenizer.json has the same tokens.
    found = [path for name in names for path in shared(name)]
    found += map(_unpacked, shared("*/*.xz"))
    return [path for path in found if not (path.parent / "tokenizer.json").exists()]


def shared_folders() -> list[Path]:
    """The folders of real tokenizers."""
    unpacked = {path.parent.name: _unpacked(path).parent for path in shared("*/*.xz")}
    return [unpacked.get(path.name, path) for path in shared("*") if path.is_dir()]


@cache
def _unpacked(path: Path) -> Path:
    """A file that is kept compressed, in a folder of the same name."""
    temporary = TemporaryDirectory(prefix="streamdec-tests-")
    folder = Path(temporary.name, path.parent.name)
    folder.mkdir()
    _UNPACKED[folder.parent] = temporary
    folder.joinpath(path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    return folder / path.stem


def remove_unpacked() -> None:
    """Remove the unpacked files: pytest ends some processes without Python's exit handlers."""
    while _UNPACKED:
        _UNPACKED.popitem()[1].cleanup()


def small_ranks() -> dict[bytes, int]:
    """All bytes, in another order, and MERGED."""
    single = [bytes([(byte + 33) % 256]) for byte in range(256)]
    return {token: rank for rank, token in enumerate([*single, *MERGED])}


def rank_file(ranks: Mapping[bytes, int] | None = None) -> bytes:
    """A rank file as tiktoken writes it."""
    lines = (small_ranks() if ranks is None else ranks).items()
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in lines)


def tekken(
    tokens: Sequence[bytes] | None = None,
    special_tokens: Sequence[str] | None = None,
    num_special: int = 30,
    version: str = "v3",
    **config: Any,
) -> dict[str, Any]:
    """A Tekken file as JSON data: the bytes in order, MERGED, and three tokens beyond its size."""
    known = [bytes([byte]) for byte in range(256)] + MERGED if tokens is None else list(tokens)
    beyond = [b"beyond 1", b"beyond 2", b"beyond 3"]
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate([*known, *beyond])
    ]
    settings = {
        "pattern": r"[^\s]+|\s+",
        "num_vocab_tokens": len(vocab),
        "default_vocab_size": len(known) + num_special,
        "default_num_special_tokens": num_special,
        "version": version,
        **config,
    }
    data: dict[str, Any] = {"config": settings, "vocab": vocab}
    if special_tokens is not None:
        data["special_tokens"] = [
            {"rank": rank, "token_str": name, "is_control": True}
            for rank, name in enumerate(special_tokens)
        ]
    return data


def write_json(path: Path, data: Any) -> Path:
    """``data`` as JSON in ``path``."""
    path.write_text(json.dumps(data), "utf-8")
    return path


def write_files(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files by their names: bytes, texts, and other data as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


# --- GGUF -----------------------------------------------------------------------------------------


def gguf(values: Iterable[tuple[str, Any]], order: str = "<", version: int = 3) -> bytes:
    """A GGUF file without tensors: keys and strings, bools, ints, floats, or lists of one of these.

    A value that is ``bytes`` is put there as it is: its type and what follows.
    """
    items = list(values)
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, 0, len(items))
    return head + b"".join(_text(key, order) + _typed(value, order) for key, value in items)


def _text(text: str, order: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack(f"{order}Q", len(data)) + data


def _typed(value: Any, order: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        kind = _kind(value[0]) if value else 4
        body = b"".join(_packed(item, order) for item in value)
        return struct.pack(f"{order}IIQ", 9, kind, len(value)) + body
    return struct.pack(f"{order}I", _kind(value)) + _packed(value, order)


def _kind(value: Any) -> int:
    return {str: 8, bool: 7, int: 5, float: 6}[type(value)]


def _packed(value: Any, order: str) -> bytes:
    if isinstance(value, str):
        return _text(value, order)
    return struct.pack(order + {bool: "?", int: "i", float: "f"}[type(value)], value)


LLAMA_TOKENS: list[tuple[str, int, float]] = [
    *(("<unk>", 2, 0.0), ("<s>", 3, 0.0), ("</s>", 3, 0.0)),
    *((f"<0x{byte:02X}>", 6, 0.0) for byte in range(256)),
    *((text, 1, -float(n)) for n, text in enumerate(["he", "ll", "llo", "hello", "\u2581hello"])),
    *((text, 1, -10.0 - n) for n, text in enumerate("\u2581helo t你é")),
    ("<tool>", 4, 0.0),
    ("<unused>", 5, 0.0),
]
"""Text, type and score."""


def small_gguf(templates: Mapping[str, str] | None = None, /, **changes: Any) -> bytes:
    """A GGUF file of the kind of Llama 2, with changed values of ``tokenizer.ggml``.

    ``templates`` are its chat templates, and other values, by their keys.
    """
    texts, types, scores = map(list, zip(*LLAMA_TOKENS, strict=True))
    values = {"model": "llama", "tokens": texts, "token_type": types, "scores": scores} | {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": True,
    }
    known = {key: value for key, value in (values | changes).items() if value is not None}
    named = [(f"tokenizer.ggml.{key}", value) for key, value in known.items()]
    named += (templates or {}).items()
    return gguf([("general.architecture", "llama"), *named, ("other", [1, 2, 3])])


def gguf_tokenizer(others: Mapping[str, str] | None = None, /, **changes: Any) -> GGUFTokenizer:
    """The tokenizer of :func:`small_gguf`."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "file.gguf")
        path.write_bytes(small_gguf(others, **changes))
        return GGUFTokenizer(path)


# --- SentencePiece --------------------------------------------------------------------------------

_SENTENCES = """the quick brown fox jumps over the lazy dog
hello world, hello there; they said: "hello"!
in the beginning there was the word, and the word was long
café crème, naïve coöperation, über Größe
    indented lines    with    spaces
1 2 3 12 123 2024 100000""".splitlines()


def sentencepiece(**options: Any) -> bytes:
    """A model trained on a few lines; options of the trainer. Needs the library."""
    import io

    import sentencepiece as library

    out = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 20),
        model_writer=out,
        minloglevel=2,
        hard_vocab_limit=False,
        **{"model_type": "bpe", "vocab_size": 400, "num_threads": 1, **options},
    )
    return out.getvalue()


def model_proto(pieces: Iterable[tuple[str, float, int]], *, adds_prefix: bool) -> bytes:
    """A SentencePiece model of these pieces, scores and types.

    The numbers of the types are the same in GGUF and in this format. The format is
    ``src/sentencepiece_model.proto`` of google/sentencepiece: BPE with bytes, and no normalization
    but a space before the text.
    """
    parts = []
    for text, score, kind in pieces:
        fields = _message(1, text.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)
        parts.append(_message(1, fields))
    trainer = _number(3, 2) + _number(35, 1)
    normalizer = _message(1, b"identity") + _number(3, adds_prefix) + _number(4, 0) + _number(5, 1)
    return b"".join(parts) + _message(2, trainer) + _message(3, normalizer)


def _message(number: int, data: bytes) -> bytes:
    return _written(number << 3 | 2) + _written(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _written(number << 3) + _written(value)


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


SMALL = EncodingSpec("small", r"\s?\S+|\s+", {"<|end|>": 272, "<a>": 300})
"""The encoding of the rank file."""
FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "huggingface": ("tokenizer.json", (LOADING / "demo" / "tokenizer.json").read_bytes),
    "tekken": ("tekken.json", lambda: json.dumps(tekken()).encode()),
    "tiktoken": ("small.tiktoken", rank_file),
    "sentencepiece": ("tokenizer.model", sentencepiece),
    "gguf": ("a.gguf", small_gguf),
}
"""The name and the content of a file of each format."""


def write_format(folder: Path, format_: str) -> tuple[Path, dict[str, Any]]:
    """The path of a small file of a format, and the options to load it with."""
    name, content = FORMATS[format_]
    (folder / name).write_bytes(content())
    return folder / name, {"encoding": SMALL} if format_ == "tiktoken" else {}


BACKENDS: dict[str, Callable[[], Any]] = {
    "tiktoken": lambda: TiktokenTokenizer(rank_file(), encoding=SMALL),
    "tekken": lambda: TekkenTokenizer(json.dumps(tekken()).encode()),
    "sentencepiece": lambda: SentencePieceTokenizer(
        sentencepiece(byte_fallback=True, remove_extra_whitespaces=False, vocab_size=600)
    ),
    "gguf": gguf_tokenizer,
}
"""A small tokenizer of each backend but that of tokenizers, whose are in ``zoo.py``."""

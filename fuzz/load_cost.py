"""``python -m fuzz.load_cost``: what loading a file costs is in proportion to the file's size.

An input is JSON: the ``shape`` of a file, which has its format; its ``size`` in KiB; the number of
``letters`` of a token; the ``regex`` of its parts, and how often that is ``repeated``; the
``growth`` of a replacement; and whether another file is ``beside`` it. A child process loads the
file. It may use BASE_SECONDS and SECONDS_A_BYTE of CPU time, and BASE_MEMORY and MEMORY_A_BYTE. A
child that dies of a signal is a finding too.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import load_tokenizer
from streamdec.backends import gguf, sentencepiece, tekken, tiktoken  # noqa: F401
from streamdec.errors import StreamdecError
from streamdec.folders.sentencepiece_proto import model_proto
from streamdec.tokenizers.encodings import EncodingSpec
from tests.support import files

BASE_SECONDS, SECONDS_A_BYTE = 3.0, 20e-6
BASE_MEMORY, MEMORY_A_BYTE = 2**26, 400
"""The library's trie of a Unigram model takes 340 bytes a byte; all else takes less than 130."""
MOST_SIZE = 512
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of a unit of ``ru_maxrss``."""
DEADLOCKED = 300
"""Seconds after which a child that waits for something is ended."""
FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
UNIGRAM = b"\x12\x02\x18\x01"
"""Another message of the trainer, which sets the type of a ModelProto."""
BYTES = [bytes([byte]) for byte in range(256)]
REGEXES = (
    *("a", "a+", "a*a*", "a+$", "(a|aa)+$", "(a?){20}b", "(a{40}){40}", r"\w{30}", r"(?=\w{9})a"),
    *(r"[\p{L}\p{N}]+", r"\s+(?!\S)|a", "(?i:ss|st)", "a|b", r"(a)\1", r"(?<x>a\g<x>?)"),
)


class CostError(AssertionError):
    """Loading costs too much."""


class Draw(Case):
    """What an input says about a file."""

    @property
    def regex(self) -> str:
        return self.choice("regex", REGEXES) * self.number("repeated", 2_000, least=1)

    @property
    def size(self) -> int:
        return 1024 * self.number("size", MOST_SIZE, least=1)

    def words(self, around: int) -> Iterator[str]:
        """Yield different tokens until the file is full; each has ``around`` bytes beside it."""
        letters, count, left = "a" * self.number("letters", 40_000), 0, self.size
        while left > 0:
            word = f"{letters}{count:x}" if self.flag("shared") else f"{count:05x}{letters}"
            yield word
            left -= len(word) + around
            count += 1

    def stage(self) -> dict[str, Any]:
        """Return a replacement of a regex, or of a letter by many."""
        content = "b" * self.number("growth", 200)
        kind, pattern = ("Regex", self.regex) if self.flag("regex") else ("String", "a")
        return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def tokenizer_json(model: Any = None, **parts: Any) -> bytes:
    bpe: Any = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    given = {"version": "1.0", "added_tokens": []} | parts
    return json.dumps(given | {"model": bpe | (model or {})}, ensure_ascii=False).encode()


def _bpe(draw: Draw) -> bytes:
    return tokenizer_json({"vocab": _numbered(draw)})


def _decoder(draw: Draw) -> bytes:
    before = [{"type": "Fuse"}] if draw.flag("fused") else []
    chain = {"type": "Sequence", "decoders": [*before, draw.stage()]}
    return tokenizer_json({"vocab": _numbered(draw)}, decoder=chain)


def _merges(draw: Draw) -> bytes:
    letters = [chr(0x4E00 + i) for i in range(int((draw.size / 24) ** 0.5) + 2)]
    pairs = [(one, other) for one in letters for other in letters]
    names = [*letters, *(one + other for one, other in pairs)]
    vocab = {name: number for number, name in enumerate(names)}
    return tokenizer_json({"vocab": vocab, "merges": [f"{one} {other}" for one, other in pairs]})


def _numbered(draw: Draw) -> dict[str, int]:
    return {word: number for number, word in enumerate(draw.words(10))}


def _unigram(draw: Draw) -> bytes:
    scores = [[word, -1.5] for word in draw.words(9)]
    return tokenizer_json({"type": "Unigram", "unk_id": 0, "vocab": scores})


def _word_piece(draw: Draw) -> bytes:
    model: Any = {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##"}
    model |= {"max_input_chars_per_word": 10**9, "vocab": _numbered(draw)}
    return tokenizer_json(model)


def _added(draw: Draw) -> bytes:
    flags = FLAGS | {"normalized": draw.flag("normalized")}
    tokens = [
        {"id": number, "content": word, **flags, "special": bool(number & 1)}
        for number, word in enumerate(draw.words(110), 20)
    ]
    return tokenizer_json(added_tokens=tokens, normalizer=draw.stage())


def _cut(draw: Draw) -> bytes:
    pattern = {"Regex": draw.regex}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return tokenizer_json({"vocab": _numbered(draw)}, pre_tokenizer=split)


def _keys(draw: Draw) -> bytes:
    """Return many keys that a part has, or brackets."""
    key = draw.choice("key", ("normalizer", "decoder", "added_tokens", "vocab", "merges"))
    item = f'"{key}": {"[]" if key == "added_tokens" else "{}"}, '
    if draw.flag("deep"):
        item = draw.choice("nested", ('{"x":', "[", "[],", f'{{"{key}": {{"x":'))
    many = item * (draw.size // len(item))
    return b'%s, "z": {%s "q": 0}}' % (tokenizer_json()[:-1], many.encode())


def _ranks(draw: Draw) -> bytes:
    tokens = [*BYTES, *(word.encode() for word in draw.words(12))]
    return b"".join(b"%s %d\n" % (base64.b64encode(t), n) for n, t in enumerate(tokens))


def _tekken(draw: Draw) -> bytes:
    tokens = [*BYTES, *(word.encode() for word in draw.words(60))]
    num_special = draw.number("special", 2**24)
    data = files.tekken(tokens, special_tokens=["<unk>"], num_special=20)
    data["config"] |= {"pattern": draw.regex, "default_num_special_tokens": num_special}
    data["config"]["default_vocab_size"] = num_special + len(tokens)
    return json.dumps(data | {"special_tokens": []}).encode()


def _sentencepiece(draw: Draw) -> bytes:
    kind = draw.number("type", 6, least=1)
    pieces = [("<unk>", 2), *((word, kind) for word in draw.words(12))]
    content = model_proto([(text, -1.0, kind) for text, kind in pieces], adds_prefix=True)
    return content if draw.flag("bpe") else content + UNIGRAM


def _gguf(draw: Draw) -> bytes:
    tokens = [*draw.words(20)]
    kinds, scores = [draw.number("type", 5, least=1)] * len(tokens), [0.5] * len(tokens)
    model = draw.choice("kind", ("llama", "gpt2", "bert", "rwkv", "t5"))
    values = {"tokens": tokens, "token_type": kinds, "scores": scores, "merges": tokens[:9]}
    named = {"model": model, "pre": "gpt-2"} | values
    return files.gguf([(f"tokenizer.ggml.{key}", value) for key, value in named.items()])


SHAPES: dict[str, tuple[str, Callable[[Draw], bytes]]] = {
    "bpe": ("tokenizer.json", _bpe),
    "merges": ("tokenizer.json", _merges),
    "unigram": ("tokenizer.json", _unigram),
    "wordpiece": ("tokenizer.json", _word_piece),
    "added": ("tokenizer.json", _added),
    "cut": ("tokenizer.json", _cut),
    "decoder": ("tokenizer.json", _decoder),
    "keys": ("tokenizer.json", _keys),
    "ranks": ("ranks.tiktoken", _ranks),
    "tekken": ("tekken.json", _tekken),
    "sentencepiece": ("tokenizer.model", _sentencepiece),
    "gguf": ("model.gguf", _gguf),
}


def _config(draw: Draw) -> bytes:
    """A ``tokenizer_config.json``, which declares added tokens and has a template."""
    first = draw.number("first", 2**31)
    declared = {
        str(first + number): {"content": word, **FLAGS, "normalized": draw.flag("normalized")}
        for number, word in enumerate(draw.words(110))
    }
    kind = draw.choice("class", ("", "LlamaTokenizer", "GPT2Tokenizer", "BertTokenizer"))
    data = {"tokenizer_class": kind, "added_tokens_decoder": declared, "chat_template": "{{ a }}"}
    return json.dumps(data).encode()


def law(data: bytes) -> None:
    draw = Draw(data)
    shape = draw.choice("shape", [*SHAPES])
    name, make = SHAPES[shape]
    encoding = EncodingSpec("mine", r"\w+|.") if shape == "ranks" else None
    with tempfile.TemporaryDirectory(prefix="streamdec-fuzz-") as folder:
        content = {name: make(draw)}
        if draw.flag("beside"):
            content["tokenizer_config.json"] = _config(draw)
        for file, written_in in content.items():
            (Path(folder) / file).write_bytes(written_in)
        size = sum(map(len, content.values()))
        path = Path(folder) if draw.flag("beside") else Path(folder) / name
        within(lambda: _load(path, encoding), size)


def _load(path: Path, encoding: EncodingSpec | None) -> None:
    with suppress(StreamdecError):
        load_tokenizer(path, fast="off", encoding=encoding)
    gc.collect()


def within(work: Callable[[], None], size: int) -> None:
    """Do ``work`` in a child process, and compare what it took with what ``size`` bytes may cost.

    Raises CostError.
    """
    most_seconds = BASE_SECONDS + SECONDS_A_BYTE * size
    most_memory = BASE_MEMORY + MEMORY_A_BYTE * size
    ends, begins = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the child does not have
        child = os.fork()
    if child == 0:
        _as_child(work, begins, int(most_seconds) + 2)
    os.close(begins)
    with os.fdopen(ends, "rb") as pipe:
        told = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    before, _, error = told.partition(" ")
    seconds, memory = used.ru_utime + used.ru_stime, _UNIT * (used.ru_maxrss - int(before))
    took = f"{seconds:.1f} s of CPU time and {memory >> 20} MiB for a file of {size:,} bytes"
    if status or error:
        raise CostError(f"the child ended with status {status} {error} after {took}")
    if seconds > most_seconds or memory > most_memory:
        most = f"{most_seconds:.1f} s and {most_memory >> 20} MiB"
        raise CostError(f"loading took {took}, expected {most} at most")


def _as_child(work: Callable[[], None], begins: int, seconds: int) -> None:
    """Do ``work`` and end the process."""
    gc.freeze()  # a collection would cost more, and copy more memory, the more the parent has
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(DEADLOCKED)
    os.write(begins, b"%d " % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    try:
        work()
    except BaseException as found:  # noqa: BLE001 (the parent reports it)
        os.write(begins, repr(found).encode("utf-8", "replace")[:500])
    os._exit(0)


def seeds() -> dict[str, bytes]:
    return {
        "bpe": written(shape="bpe", size=300),
        "bpe-long": written(shape="bpe", size=300, letters=16_000),
        "merges": written(shape="merges", size=300),
        "unigram": written(shape="unigram", size=128, letters=250),
        "unigram-deep": written(shape="unigram", size=400, letters=40_000),
        "wordpiece": written(shape="wordpiece", size=200, letters=9),
        "added": written(shape="added", size=300, letters=3),
        "added-long": written(shape="added", size=200, letters=1_000),
        "added-grown": written(shape="added", size=300, letters=900, normalized=1, growth=127),
        "added-regex": written(shape="added", size=20, letters=30, normalized=1, regex="(a|aa)+$"),
        "added-square": written(shape="added", size=99, letters=8_000, normalized=1, regex="a+$"),
        "cut": written(shape="cut", size=2, regex="a", repeated=2_000),
        "cut-counted": written(shape="cut", size=2, regex="(a{40}){40}", repeated=9),
        "decoder-regex": written(shape="decoder", size=90, letters=28, regex="(a|aa)+$"),
        "decoder-square": written(shape="decoder", size=300, letters=8_000, regex="a+$"),
        "decoder-allowed": written(shape="decoder", size=40, letters=300, regex="a+$"),
        "decoder-fused": written(shape="decoder", size=40, letters=15, regex="a+$", fused=1),
        "decoder-grown": written(shape="decoder", size=300, letters=8_000, growth=15),
        "keys": written(shape="keys", size=511, key="normalizer"),
        "keys-deep": written(shape="keys", size=511, deep=1, nested=3),
        "ranks": written(shape="ranks", size=300),
        "tekken": written(shape="tekken", size=300, special=20, regex="a+"),
        "tekken-special": written(shape="tekken", size=1, special=2**20),
        "tekken-most": written(
            shape="tekken", size=1, special=4_096, regex="(?=\\w{9})a", repeated=40
        ),
        "tekken-counted": written(
            shape="tekken", size=1, special=20, regex="(?=\\w{9})a", repeated=999
        ),
        "sentencepiece": written(shape="sentencepiece", size=300, letters=3),
        "sentencepiece-long": written(shape="sentencepiece", size=300, letters=900, bpe=1),
        "sentencepiece-folder": written(
            shape="sentencepiece", size=99, beside=1, **{"class": "LlamaTokenizer"}
        ),
        "gguf": written(shape="gguf", size=300, letters=2),
        "folder": written(shape="bpe", size=99, beside=1, letters=2, normalized=1),
    }


TARGET = Target(
    "load_cost", law, seeds, json_edit([*SHAPES, *REGEXES, 1, 9, 255, 4_000]), shown, is_timed=True
)

if __name__ == "__main__":
    sys.exit(main(TARGET))

"""Print the text of other detokenizers for a few ids, for ``docs/reference/features.md``.

``python -m benchmarks.peers.differences FOLDER`` prints it, with the folder that
``python -m benchmarks.peers FOLDER`` fills. The ids are those of a small byte-level
tokenizer. The output has the text of each token. The last text includes the end of the stream.
"""

from __future__ import annotations

import sys
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from benchmarks.peers.hf import HfStreamer
from benchmarks.peers.kit import Kit
from benchmarks.peers.mlx_lm import MlxNaive, MlxOwn
from benchmarks.peers.peer import Peer
from benchmarks.peers.sglang import Sglang
from benchmarks.peers.vllm import VllmFast, VllmSlow
from benchmarks.subjects import Subject
from streamdec import DecodeStream, HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.rules.base import byte_alphabet

WORDS = [b"Hello", b" world", b"a\xe4", b"ab", b"ST", b"OP", b"xSTOPy"]
"""Tokens besides the 256 bytes."""
SPECIAL = 256 + len(WORDS)
LACKING = 5_000
Part = bytes | int

CASES: dict[str, tuple[Sequence[Part], Sequence[Part], str]] = {
    # name: the ids, the prompt, a stop string
    "an open character": ([b"Hello", b"\xc3", b"\xa9", b"Hello"], [], ""),
    "a bad byte": ([b"a", b"\xff", b"b"], [], ""),
    "a character that breaks off": ([b"\xe4", b"\xbd", b"A"], [], ""),
    "bad bytes at the end": ([b"Hello", b"\xff", b"\xfe", b"\xe4", b"\xbd"], [], ""),
    "text beside an open character, at the end": ([b"Hello", b"a\xe4"], [], ""),
    "a special token inside a character": ([b"\xc3", SPECIAL, b"\xa9", b"Hello"], [], ""),
    "a prompt inside a character": ([b"\xa0"], [b"Hello", b" world", b"\xe4", b"\xbd"], ""),
    "a space after a prompt": ([b" world"], [b"Hello"], ""),
    "an id that the tokenizer lacks": ([b"a", LACKING, b"b"], [], ""),
    "nothing like the stop": ([b"Hello", *[b"ab"] * 4], [], "STOPPPPPPPPP"),
    "the stop breaks off": ([b"Hello", b"ST", b"ab"], [], "STOP"),
    "the stop begins at the end": ([b"Hello", b"ST"], [], "STOP"),
}
# (transformers gets no special tokens from that file alone, so vLLM's slow detokenizer, which
# asks it, shows the one of the sixth case.)
RUNS = (250, 2_000)
"""Special tokens in a row, timed."""


def _tokenizer() -> Tokenizer:
    """Each byte is its own id. The ids of WORDS follow."""
    letters = {byte: chr(letter) for letter, byte in byte_alphabet().items()}
    tokens = [*(bytes([byte]) for byte in range(256)), *WORDS]
    vocabulary = {"".join(letters[byte] for byte in each): i for i, each in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    assert tokenizer.token_to_id("<s>") == SPECIAL
    return tokenizer


def _ids(parts: Iterable[Part]) -> list[int]:
    return [
        part if isinstance(part, int) else 256 + WORDS.index(part) if part in WORDS else part[0]
        for part in parts
    ]


class _Library(Peer):
    """``DecodeStream`` of tokenizers."""

    name = "tokenizers DecodeStream"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        self._tokenizer = subject.library
        self.prompt: list[int] = []

    def open(self) -> Any:
        return decoders.DecodeStream(ids=self.prompt, skip_special_tokens=True)

    def step(self, stream: Any, token_id: int) -> str:
        return stream.step(self._tokenizer, token_id) or ""

    def last(self, stream: Any, token_id: int) -> str:
        return self.step(stream, token_id)

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            self.step(stream, token_id)


class _Ours(_Library):
    """The decoders to compare."""

    name = "streamdec"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        super().__init__(kit, subject)
        self._wrapped = HuggingFaceTokenizer(subject.library)
        self._conditions = StopConditions(stops) if stops else None

    def open(self) -> Any:
        if self._conditions is None:
            return DecodeStream(self._wrapped, self.prompt)
        return StopSequenceDecoder(self._wrapped, self._conditions, self.prompt)

    def step(self, stream: Any, token_id: int) -> str:
        given = stream.step(token_id)
        return given if isinstance(given, str) else str(given.text)

    def last(self, stream: Any, token_id: int) -> str:
        text, rest = self.step(stream, token_id), stream.flush()
        return text + (rest if isinstance(rest, str) else rest.text)


MAKERS: Sequence[Any] = (_Ours, _Library, VllmFast, VllmSlow, Sglang, MlxOwn, MlxNaive, HfStreamer)
MATCHERS: Sequence[Any] = (_Ours, VllmFast, Sglang)


def _texts(peer: Peer, ids: Sequence[int], prompt: list[int]) -> list[str]:
    """Return the text of each token, after a prompt if the peer accepts one."""
    if isinstance(peer, VllmFast | VllmSlow):
        peer._request.prompt_token_ids = prompt
    elif isinstance(peer, _Library):
        peer.prompt = prompt
    stream = peer.open()
    if isinstance(peer, Sglang):
        stream.requests[0].origin_input_ids_unpadded = array("q", prompt)
    return [*(peer.step(stream, each) for each in ids[:-1]), peer.last(stream, ids[-1])]


def lines(folder: Path) -> Iterator[str]:
    """Print all cases, and the cost of a run of special tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "tokenizer.json"
        _tokenizer().save(str(path))
        kit, subject = Kit(folder), Subject("small", path)
        yield str(kit.versions)
        for name, (parts, prompt, stop) in CASES.items():
            yield f"\n{name}"
            for maker in MATCHERS if stop else MAKERS:
                peer = maker(kit, subject, [stop] if stop else [])
                yield f"    {peer.name:34}{_texts(peer, _ids(parts), _ids(prompt))}"
        yield f"\nµs for each of {RUNS} special tokens in a row, which are skipped"
        for maker in MAKERS:
            peer = maker(kit, subject)
            yield f"    {peer.name:34}{[round(_time(peer, size), 1) for size in RUNS]}"


def _time(peer: Peer, size: int) -> float:
    stream = peer.open()
    start = time.process_time()
    for _ in range(size):
        peer.step(stream, SPECIAL)
    return (time.process_time() - start) / size * 1e6


if __name__ == "__main__":
    for line in lines(Path(sys.argv[1])):
        sys.stdout.write(f"{line}\n")

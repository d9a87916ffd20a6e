"""Check the detokenizers of other projects with the kit of ``streamdec.testing``.

``python -m benchmarks.peers.conformance FOLDER`` prints a report on each, with the folder that
``python -m benchmarks.peers FOLDER`` fills. They are checked without prompts and stops.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from benchmarks.peers.hf import HfStreamer
from benchmarks.peers.kit import Kit, PeerMissingError
from benchmarks.peers.mlx_lm import MlxNaive, MlxOwn
from benchmarks.peers.sglang import Sglang
from benchmarks.peers.vllm import VllmFast, VllmSlow
from benchmarks.subjects import Subject
from streamdec.testing import Detokenizer, MakeDetokenizer, Request, check_detokenizer

PEERS = (VllmFast, VllmSlow, Sglang, MlxOwn, MlxNaive, HfStreamer)
EXAMPLES = 25
"""How many examples are tried for each law."""


class _Adapter:
    """A peer with the methods that the kit calls."""

    def __init__(self, peer: Any) -> None:
        self._peer, self._stream = peer, peer.open()

    def step(self, token_ids: list[int]) -> str:
        return "".join(self._peer.step(self._stream, each) for each in token_ids)

    def flush(self) -> str:
        text: str = self._peer.end(self._stream)
        return text


class _Library:
    """``DecodeStream`` of tokenizers, which has no call for the end."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def step(self, token_ids: list[int]) -> str:
        return "".join(self._stream.step(self._tokenizer, each) or "" for each in token_ids)

    def flush(self) -> str:
        return ""


def _check(request: Request) -> None:
    asked = {
        "prompts": request.prompt_token_ids,
        "stop strings": request.stop,
        "special tokens that are shown": not request.skip_special_tokens,
    }
    for what, value in asked.items():
        if value:
            raise NotImplementedError(what)


def _maker(kit: Kit, folder: Path, peer: Any) -> MakeDetokenizer:
    """Return the function that the kit calls, for one kind of peer."""

    @cache
    def made(tokenizer: Tokenizer) -> Any:
        path = folder / f"{id(tokenizer)}.json"
        tokenizer.save(str(path))
        return peer(kit, Subject(path.stem, path))

    def make(tokenizer: Any, request: Request) -> Detokenizer:
        _check(request)
        try:
            return _Adapter(made(tokenizer))
        except PeerMissingError as error:
            raise NotImplementedError(str(error)) from None

    return make


def _library(tokenizer: Any, request: Request) -> Detokenizer:
    _check(request)
    return _Library(tokenizer)


def main(folder: Path) -> None:
    """Print a report on each peer."""
    kit = Kit(folder, names_specials=True)
    with tempfile.TemporaryDirectory() as scratch:
        makers: dict[str, MakeDetokenizer] = {"tokenizers DecodeStream": _library}
        makers |= {each.__name__: _maker(kit, Path(scratch), each) for each in PEERS}
        for name, make in makers.items():
            sys.stdout.write(f"# {name}\n{check_detokenizer(make, max_examples=EXAMPLES)}\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

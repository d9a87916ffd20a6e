"""``python -m fuzz.loading``: check that any file is a correct tokenizer or a clear error.

An input is the content of a file of any format. The allowed errors are TokenizerLoadError and its
subclasses, and TokenizerLibraryError while decoding. A warning is not a finding. The command also
measures each input: more than MOST_SECONDS of CPU time or MOST_MEGABYTES is a finding.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.edits import json_edit
from fuzz.harness import CORPUS, Target, main
from streamdec import DecodeStream, load_tokenizer
from streamdec.backends import gguf, sentencepiece, tekken, tiktoken  # noqa: F401
from streamdec.errors import RewriteError, TokenizerLibraryError, TokenizerLoadError
from streamdec.loading.detect import detect_format
from streamdec.protocols import ByteFallback
from streamdec.tokenizers import LoadedTokenizer

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


# --- the target -----------------------------------------------------------------------------------

SEEDS = CORPUS / "loading"
"""One small file of each format and decoder, written by hand."""
DECODERS = [
    json.loads(path.read_bytes())["decoder"] for path in sorted(SEEDS.glob("tokenizer-*.json"))
]
CHAIN = [part for decoder in DECODERS if decoder for part in decoder.get("decoders", ())]
PIECES = ["<unk>", "<s>", "▁a", "b", "<0xE4>", "<0xBD>", "<0xA0>", "é", "##c", "d</w>", "▁"]
WORDS = [*DECODERS, *CHAIN, *PIECES, "BPE", "WordPiece", "WordLevel", "Unigram", "Fuse"]
WORDS += [{"Regex": "(a|b)+"}, {"String": ""}, *range(16), 2**31, 2**32 - 1, -1]
TARGET = Target("loading", law, edit=json_edit(WORDS))

if __name__ == "__main__":
    sys.exit(main(replace(TARGET, law=measured)))

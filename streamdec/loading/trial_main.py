"""The child that loads a stranger's file; ``loading.untrusted`` starts it.

In: the path and the options of ``load_tokenizer``, or the content of a ``tokenizer.json``. Out:
nothing, or the name of an error and its message. Libraries free some data by recursion, so the
tokenizer is freed here, too, with as small a stack as a thread has anywhere.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from streamdec.backends._decoder_chain import Stage, stages_of
from streamdec.backends._tokenizer_json import parse
from streamdec.backends.huggingface import library_tokenizer
from streamdec.children.serving import requests, write_answer
from streamdec.errors import TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from streamdec.tokenizers.encodings import EncodingSpec

MAX_GROWTH = 4_096
"""How many characters a decoder may make of one. Known decoders make three."""
STACK = 1 << 20
"""Bytes of the stack: the least that Python gives a thread on any system."""


def serve(setup: dict[str, Any]) -> None:
    """Load the file when a request comes, and answer."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print
    warnings.simplefilter("ignore")
    threading.stack_size(STACK)
    for content in requests(setup["cpu_seconds"]):
        answer: dict[str, str] = {}
        load = partial(parse, content, "JSON") if setup["source"] is None else partial(_load, setup)
        thread = threading.Thread(target=_try, args=(load, answer))
        thread.start()
        thread.join()
        write_answer(sink, answer)


def _try(load: Callable[[], object], answer: dict[str, str]) -> None:
    """Load a tokenizer and free it; put an error into ``answer``."""
    try:
        load()
        gc.collect()
    except MemoryError:
        answer["error"] = "it takes too much memory"
    except BaseException as error:  # noqa: BLE001 (a Rust panic, too; the parent raises it)
        answer["kind"], answer["error"] = type(error).__name__, str(error)[:2_000]


def _load(setup: dict[str, Any]) -> None:
    source, options = setup["source"], setup["options"]
    if not setup["imports_transformers"]:
        sys.modules["transformers"] = None  # type: ignore[assignment]
    encoding = options["encoding"]
    if isinstance(encoding, dict):
        options = {**options, "encoding": EncodingSpec(**encoding)}
    library = library_tokenizer(load_tokenizer(source, **options, untrusted=False))
    stages = None if library is None else stages_of(library.decoder)
    if (growth := decoder_growth(stages or ())) > MAX_GROWTH:
        what = f"may turn one character into {growth:.4g}, and at most {MAX_GROWTH} are allowed"
        raise TokenizerLoadError(f"{source!r}: its decoder {what}")


def decoder_growth(stages: Iterable[Stage]) -> float:
    """Return a bound of how many characters the stages of a decoder make of one.

    Each replacement is counted as if it found its pattern everywhere. An empty pattern, and a
    regex, may match before and after each character.
    """
    growth = 1.0
    for stage in stages:
        if stage["type"] == "Replace":
            pattern, content = stage["pattern"].get("String", ""), stage["content"]
        elif stage["type"] in ("BPEDecoder", "CTC"):
            pattern, content = stage.get("suffix", stage.get("word_delimiter_token")), " "
        else:
            continue
        growth *= max(1.0, len(content) / len(pattern)) if pattern else 1 + 2 * len(content)
    return growth

"""Load a file of a stranger in a child process first.

In: the place, and the options of loading. Out: nothing, or an error. A library that aborts, a file
that needs gigabytes, and a regex without end are errors of the child.
The child (:mod:`streamdec.loading.trial_main`) does what ``load_tokenizer`` does, frees the
tokenizer, and checks what its decoder may make of a text.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streamdec.children.child import Child, ChildError, ChildLimits
from streamdec.errors import MissingExtraError, TokenizerLibraryError, TokenizerLoadError
from streamdec.loading.detect import Detected
from streamdec.loading.places import Place
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.tokenizer_report import FastMode

LIMITS = ChildLimits(memory=1 << 30, cpu_seconds=20, wall_seconds=60.0, answer=1 << 16)
"""The limits for a small file."""
MEMORY_A_BYTE = 128
"""Bytes of memory for each byte of the file. A Unigram model of a million pieces takes 120."""
SECONDS_A_MEBIBYTE = 1
"""Seconds of processor time, and three times as many by the clock, for each MiB of the file."""
MAX_COUNTED = 2**26
"""The most bytes of a file that are counted for this; the largest known has 34 million."""
TRANSFORMERS_MEMORY = 8 << 30
"""Address space for the libraries that transformers imports."""

_ENVIRONMENT = {
    # Threads take address space, and a machine may have hundreds of cores.
    "TOKENIZERS_PARALLELISM": "false",
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
_KEPT = ("LD_LIBRARY_PATH",)
"""Variables that the libraries may need to be imported."""
_FAILED = "loading it in a child process failed"
_ERRORS = {kind.__name__: kind for kind in (MissingExtraError, TokenizerLibraryError)}


def try_loading(path: str, options: Mapping[str, Any], size: int, *, imports: bool) -> None:
    """Load ``path``, a file or a folder, in a child.

    ``options`` are those of ``load_tokenizer``, as JSON data. The bytes of the file, ``size``, set
    the limits. ``imports`` says whether loading may import transformers, which takes more memory.

    Raises the error of loading, and TokenizerLoadError if the child exceeds a limit or dies.
    """
    setup = {"source": path, "options": options, "imports_transformers": imports}
    limits = limits_for(size, imports_transformers=imports)
    _ask(b"", setup, limits, f"{path!r}: ", ". untrusted=False loads a file without a trial")


def tried(
    place: Place, found: Detected | None, fast: FastMode, apply_tokenizer_config: bool | None
) -> Callable[[], None] | None:
    """Load a file in a child process, and return a function that builds fastokens in one.

    Args:
        place: Where it is; the name of an encoding needs no trial.
        found: Its format.
        fast: When fastokens is built.
        apply_tokenizer_config: As for ``load_tokenizer``.

    Raises :class:`~streamdec.TokenizerLoadError`, and the errors of loading.
    """
    if place.path is None or found is None or found.format == "unsupported":
        return None
    encoding: Any = place.encoding
    if isinstance(encoding, EncodingSpec):
        special = dict(encoding.special_tokens)
        encoding = {**vars(encoding), "special_tokens": special, "files": ()}
    loading = {"apply_tokenizer_config": apply_tokenizer_config, "encoding": encoding}
    size = found.path.stat().st_size if found.path.is_file() else MAX_COUNTED
    # The files beside a SentencePiece model say whether transformers loads it.
    may_import = found.format in ("transformers", "sentencepiece")
    imports = may_import and find_spec("transformers") is not None
    trial = partial(try_loading, str(place.path.absolute()), size=size)
    try:
        trial({**loading, "fast": "now" if fast == "now" else "off"}, imports=imports)
    except MissingExtraError:  # only transformers can make the tokenizer
        if imports or find_spec("transformers") is None:
            raise
        trial({**loading, "fast": "off"}, imports=True)
    return partial(trial, {**loading, "fast": "now"}, imports=imports)


def try_content(content: bytes) -> None:
    """Read a ``tokenizer.json`` with its library in a child.

    Raises TokenizerLoadError if the library rejects it, or the child exceeds a limit or dies.
    """
    _ask(content, {"source": None}, limits_for(len(content), imports_transformers=False))


def _ask(
    message: bytes, setup: Mapping[str, Any], limits: ChildLimits, where: str = "", hint: str = ""
) -> None:
    """Send ``message`` to a new child, and raise the error of loading that it reports.

    If the child fails, raises TokenizerLoadError, which begins with ``where``. It ends with
    ``hint`` if no limit was exceeded and nothing aborted, which would be the fault of the file.
    """
    setup = {
        "serves": "streamdec.loading.trial_main",
        "path": _folders(),
        "packages": {"streamdec": [str(Path(__file__).resolve().parents[1])]},
        **setup,
    }
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    deadline = time.monotonic() + limits.wall_seconds
    try:
        child = Child(setup, limits, {**_ENVIRONMENT, **kept})
        try:
            head, _ = child.ask(message, deadline)
        finally:
            child.kill()
    except (ChildError, OSError) as error:
        is_limit = isinstance(error, ChildError) and error.is_limit
        what = f"{where}{_FAILED}: {error}{'' if is_limit else hint}"
        raise TokenizerLoadError(what) from None
    if "kind" in head:
        kind = _ERRORS.get(str(head["kind"]), TokenizerLoadError)
        raise kind(str(head.get("error"))[:2_000])
    if "error" in head:
        raise TokenizerLoadError(f"{where}{_FAILED}: {head['error']!s:.2000}")


def limits_for(size: int, *, imports_transformers: bool) -> ChildLimits:
    """Return the limits for a file of ``size`` bytes."""
    counted = min(size, MAX_COUNTED)
    seconds = SECONDS_A_MEBIBYTE * (counted >> 20)
    memory = LIMITS.memory + MEMORY_A_BYTE * counted
    return replace(
        LIMITS,
        memory=memory + (TRANSFORMERS_MEMORY if imports_transformers else 0),
        cpu_seconds=LIMITS.cpu_seconds + seconds,
        wall_seconds=LIMITS.wall_seconds + 3 * seconds,
    )


def _folders() -> list[str]:
    """Return the folders from which the child imports: those of this process.

    The current folder may be the stranger's, so it is left out.
    """
    here = ""
    with suppress(OSError):  # the current folder was deleted
        here = os.path.realpath(os.curdir)
    return [
        path for path in sys.path if Path(path).is_absolute() and os.path.realpath(path) != here
    ]

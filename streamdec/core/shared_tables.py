"""The choice of the tokenizer for an object, and of the table for a tokenizer.

A tokenizer of a library is wrapped once. On the bytes route, a table is compiled once, verified,
and shared by all streams of the tokenizer with equal options.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, cast

from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import DEFAULT_OPTIONS, Options, Route
from streamdec.core.replacers import replacers_of
from streamdec.core.rules.compile import compile_rule
from streamdec.core.table import Table
from streamdec.core.token_ids import ByObject, log_once
from streamdec.core.window import WindowTable, full_decode
from streamdec.errors import TokenizerLoadError, warn
from streamdec.hooks import suppressed
from streamdec.locks import Lock
from streamdec.mistakes import hint
from streamdec.protocols import Decoder, TableDecoder

_METHODS = ("decode", "piece", "is_skipped", "sample_ids")
"""The methods of a TableDecoder that compiling and verifying call."""


class _Compiled:
    """What was compiled for one tokenizer: its rules and tables."""

    def __init__(self, decoder: TableDecoder) -> None:
        missing = [name for name in _METHODS if not callable(getattr(decoder, name, None))]
        if missing:
            raise TypeError(
                f"{decoder!r:.80} has rules, so it must have all methods of "
                f"streamdec.protocols.TableDecoder; it lacks {', '.join(missing)}"
            )
        self._verified: dict[bool, bool] = {}
        self.tables: dict[Options, ByteTable] = {}
        """The tables that agree with ``decode``."""

    def is_exact(self, decoder: TableDecoder, skip: bool) -> bool:
        """Whether the rules agree with ``decode``. The first difference gives a warning."""
        if skip not in self._verified:
            with suppressed:
                table = _byte_table(decoder, Options(skip, "exact"))
                token_id = _first_difference(decoder, table, skip)
            self._verified[skip] = token_id is None
            if token_id is not None:
                self._verified[not skip] = False
                warn(
                    f"{decoder!r:.200}: the compiled table differs from decode() at id {token_id}; "
                    "streaming over a window of decode() instead"
                )
        return self._verified[skip]


def _byte_table(decoder: TableDecoder, options: Options) -> ByteTable:
    rules = decoder.rules
    assert rules is not None
    rule = compile_rule(decoder, rules, options)
    return ByteTable(rule, options, replacers_of(rules.replaces, options))


def _first_difference(decoder: TableDecoder, table: ByteTable, skip: bool) -> int | None:
    """Return the id of a sample at which ``table`` differs from ``decode``, or None."""

    def differs(token_ids: Sequence[int]) -> bool:
        return _stream(table, token_ids) != decoder.decode(token_ids, skip_special_tokens=skip)

    sample = list(decoder.sample_ids())
    for trial in (sample, sample[::-1], *([token_id] for token_id in sample[::8])):
        if differs(trial):
            ends = range(1, len(trial))
            return next((trial[end - 1] for end in ends if differs(trial[:end])), trial[-1])
    return None


def _stream(table: ByteTable, token_ids: Sequence[int]) -> str:
    state, texts = table.prime(()), []
    for token_id in token_ids:
        text, state = table.step(state, token_id)
        texts.append(text)
    return "".join(texts) + table.flush(state)


_compiled: ByObject[_Compiled] = ByObject()


def table_for(decoder: Decoder, options: Options = DEFAULT_OPTIONS) -> Table:
    """Return the table of ``decoder`` and ``options``, or raise for bad ones."""
    compiled = _compiled.get(id(decoder))
    is_checked = type(options[0]) is type(options[3]) is bool  # 1 and True are equal keys
    if is_checked and compiled is not None and (known := compiled.tables.get(options)) is not None:
        return known
    options.check()
    has_rules = not isinstance(decoder, type) and getattr(decoder, "rules", None) is not None
    if has_rules:
        table_decoder = cast(TableDecoder, decoder)
        if compiled is None:
            compiled = _compiled.keep(decoder, _Compiled(table_decoder))
        if compiled.is_exact(table_decoder, options.skip_special_tokens):
            return compiled.tables.setdefault(options, _byte_table(table_decoder, options))
    check_decoder(decoder)
    table = WindowTable(decoder, options)
    if not has_rules:
        log_once(decoder, "has no known rules: its streams decode a window of ids")
    return table


def check_decoder(decoder: object) -> None:
    """Raise TypeError if ``decoder`` is not a tokenizer."""
    if isinstance(decoder, type):
        raise TypeError(f"a tokenizer must be an object, got the class {decoder.__name__}")
    if not callable(getattr(decoder, "decode", None)) or isinstance(decoder, bytes):
        message = f"a tokenizer must have a method decode(token_ids, ...), got {decoder!r:.80}"
        raise TypeError(message + hint("tokenizer", decoder))


def route_of(decoder: Decoder) -> Route:
    """Return ``"bytes"`` if the rules agree with ``decode``, else ``"window"``."""
    return table_for(decoder).route


# --- tokenizers of libraries ----------------------------------------------------------------------

_LIBRARIES = ("tokenizers", "fastokens")
"""The libraries whose tokenizers are wrapped. That of fastokens replaces the one of tokenizers."""
_BACKEND = "streamdec.backends.huggingface"
"""The module that wraps them. It is imported with the first one: the core needs no backend."""
_WRAPPER = "_streamdec_wrapper"


class _Wrapped(NamedTuple):
    """The wrapper of a tokenizer, which is valid until ``next_id`` has another text."""

    wrapper: Any
    next_id: int
    """The id that the next added token gets."""
    next_text: str | None
    """The text of ``next_id``, if the vocabulary of the model has holes."""


_MOST_UNTRACKED = 8
_untracked: dict[Any, _Wrapped] = {}
"""The last wrappers of tokenizers that the garbage collector does not track, by their ``id``."""
_lock = Lock()


def tokenizer_for(given: Any) -> Any:
    """Return the tokenizer with which streams of ``given`` decode.

    It is a HuggingFaceTokenizer for a ``tokenizers.Tokenizer``, and for a fast tokenizer or a
    processor of transformers: the same one each time, until tokens are added. Other objects are
    returned as they are.
    """
    if id(given) in _compiled:
        return given
    is_processor = any(each.__name__ == "ProcessorMixin" for each in type(given).__mro__)
    own = given.tokenizer if is_processor else given
    inner = getattr(own, "backend_tokenizer", own)
    if type(inner).__module__.partition(".")[0] not in _LIBRARIES:
        return given
    if isinstance(inner, type) or not hasattr(inner, "get_added_tokens_decoder"):
        return given
    # The wrapper refers to the tokenizer. So the tokenizer's own ``__dict__`` holds it: the garbage
    # collector can free both. It does not track tokenizers of version 0.22.
    is_tracked = gc.is_tracked(inner)
    kept, key = (inner.__dict__, _WRAPPER) if is_tracked else (_untracked, id(inner))
    found = kept.get(key)
    if found is None or inner.id_to_token(found.next_id) != found.next_text:
        with _lock:
            found = kept.get(key)
            if found is None or inner.id_to_token(found.next_id) != found.next_text:
                size: int = inner.get_vocab_size(with_added_tokens=False)
                next_id = max(size, max(inner.get_added_tokens_decoder(), default=-1) + 1)
                found = _Wrapped(_wrapper(own, inner), next_id, inner.id_to_token(next_id))
                kept[key] = found
                for oldest in [*_untracked][:-_MOST_UNTRACKED]:
                    del _untracked[oldest]
    wrapper = found.wrapper
    return wrapper if given is inner or _decodes_alike(given, wrapper) else given


def _wrapper(own: Any, inner: Any) -> Any:
    """Return the HuggingFaceTokenizer of ``own``, or ``inner`` if it has none."""
    try:
        return import_module(_BACKEND).HuggingFaceTokenizer(own)
    except (TypeError, TokenizerLoadError):
        return inner


_alike: ByObject[bool] = ByObject()
"""Whether a tokenizer with a ``backend_tokenizer``, or a processor, decodes as its wrapper."""


def _decodes_alike(given: Any, wrapper: Any) -> bool:
    """Return whether ``given``, by its own ``decode``, decodes as its backend does."""
    known = _alike.get(id(given))
    if known is not None:
        return known
    if getattr(given, "rules", None) is not None:
        return _alike.keep(given, False)
    is_alike = True
    sample: list[int] = [*getattr(wrapper, "sample_ids", list)()]
    sample += (token_id for token_id in sample[-8:] for _ in "12")  # a class may join equal ids
    # Without a decode that takes these, it is the backend's.
    with suppressed, suppress(Exception):
        for skip in (True, False):
            text = full_decode(given, skip)(sample)
            is_alike &= text == wrapper.decode(sample, skip_special_tokens=skip)
    return _alike.keep(given, is_alike)

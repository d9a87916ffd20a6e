"""The choice of the table for a tokenizer.

On the bytes route, a table is compiled once, verified, and shared by all streams of the tokenizer
with equal options.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import cast

from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import DEFAULT_OPTIONS, ByteFallbackMode, Options, Route
from streamdec.core.replacers import replacers_of
from streamdec.core.rules.base import TokenRule
from streamdec.core.rules.compile import compile_rule
from streamdec.core.table import Table
from streamdec.core.token_ids import UnknownTokenError
from streamdec.core.window_table import WindowTable
from streamdec.errors import warn
from streamdec.hooks import suppressed
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
        self._rules: dict[tuple[bool, ByteFallbackMode], TokenRule] = {}
        self._tables: dict[Options, ByteTable] = {}
        self._verified: dict[bool, bool] = {}
        self.known: dict[Options, ByteTable] = {}
        """The tables that agree with ``decode``."""

    def is_exact(self, decoder: TableDecoder, skip: bool) -> bool:
        """Whether the rules agree with ``decode``.

        They are compared once for each value of ``skip_special_tokens``. The first difference gives
        a warning, and ends the comparisons.
        """
        if skip not in self._verified:
            with suppressed:
                difference = self._first_difference(decoder, skip)
            self._verified[skip] = difference is None
            if difference:
                self._verified[not skip] = False
                warn(f"{decoder!r:.200}: {difference}; streaming over a window of decode() instead")
        return self._verified[skip]

    def rule(self, decoder: TableDecoder, options: Options) -> TokenRule | None:
        key = options.skip_special_tokens, options.byte_fallback
        rule = self._rules.get(key)
        if rule is None:
            compiled = compile_rule(
                decoder, skip_special_tokens=key[0], byte_fallback=options.byte_fallback
            )
            if compiled is None:
                return None
            rule = self._rules.setdefault(key, compiled)
        return rule

    def table(self, decoder: TableDecoder, options: Options) -> ByteTable | None:
        table = self._tables.get(options)
        if table is None:
            rule = self.rule(decoder, options)
            if rule is None or decoder.rules is None:
                return None
            replacers = replacers_of(decoder.rules.replaces, options)
            table = self._tables.setdefault(options, ByteTable(rule, options, replacers))
        return table

    def _first_difference(self, decoder: TableDecoder, skip: bool) -> str | None:
        """How the compiled rules differ from ``decode`` on a sample; None if they agree."""
        table = self.table(decoder, Options(skip, "exact"))
        if table is None:
            return None
        sample = list(decoder.sample_ids())
        for trial in (sample, sample[::-1], *([token_id] for token_id in sample[::8])):
            if _stream(table, trial) != decoder.decode(trial, skip_special_tokens=skip):
                token_id = _culprit(decoder, table, trial, skip)
                return f"the compiled table differs from decode() at id {token_id}"
        return None


def _stream(table: ByteTable, token_ids: Sequence[int]) -> str:
    state = table.prime(())
    texts = []
    for token_id in token_ids:
        try:
            text, state = table.step(state, token_id)
        except UnknownTokenError:
            continue
        texts.append(text)
    return "".join(texts) + table.flush(state)


def _culprit(decoder: TableDecoder, table: ByteTable, ids: Sequence[int], skip: bool) -> int:
    for size in range(1, len(ids)):
        if _stream(table, ids[:size]) != decoder.decode(ids[:size], skip_special_tokens=skip):
            return ids[size - 1]
    return ids[-1]


_compiled: dict[int, _Compiled] = {}


def _compiled_for(decoder: TableDecoder) -> _Compiled:
    """The one compilation of ``decoder``, for as long as it lives."""
    compiled = _compiled.get(id(decoder))
    if compiled is None:
        compiled = _Compiled(decoder)
        try:
            weakref.finalize(decoder, _compiled.pop, id(decoder), None)
        except TypeError:  # no weak references to it: compiled for each stream
            return compiled
        compiled = _compiled.setdefault(id(decoder), compiled)
    return compiled


def table_for(decoder: Decoder, options: Options = DEFAULT_OPTIONS) -> Table:
    """Return the table of ``decoder`` and ``options``.

    On the bytes route it is shared, on the windowed route it is a new one. Raises ValueError or
    TypeError for bad options, and for those that the windowed route cannot honour.
    """
    compiled = _compiled.get(id(decoder))
    is_checked = type(options[0]) is type(options[3]) is bool  # 1 and True are equal keys
    if is_checked and compiled is not None and (known := compiled.known.get(options)) is not None:
        return known
    options.check()
    if not isinstance(decoder, type) and getattr(decoder, "rules", None) is not None:
        table_decoder = cast(TableDecoder, decoder)
        compiled = _compiled_for(table_decoder)
        if compiled.is_exact(table_decoder, options.skip_special_tokens):
            table = compiled.table(table_decoder, options)
            if table is not None:
                compiled.known[options] = table
                return table
    check_decoder(decoder)
    return WindowTable(decoder, options)


def check_decoder(decoder: object) -> None:
    """Raise TypeError if ``decoder`` is not a tokenizer."""
    if isinstance(decoder, type):
        raise TypeError(f"a tokenizer must be an object, got the class {decoder.__name__}")
    if not callable(getattr(decoder, "decode", None)) or isinstance(decoder, bytes):
        hint = ""
        if isinstance(decoder, (str, bytes, os.PathLike)):
            hint = "; load_tokenizer(path) returns one"
        raise TypeError(
            f"a tokenizer must have a method decode(token_ids, ...), got {decoder!r:.80}{hint}"
        )


def route_of(decoder: Decoder) -> Route:
    """Return the route of ``decoder``.

    It is ``"bytes"`` if ``decoder`` was compiled and agrees with its own ``decode``, else
    ``"window"``.
    """
    return table_for(decoder).route

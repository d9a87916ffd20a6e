"""Which program serves a tokenizer: compiled once, verified, and shared by all its streams."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias, TypeVar, cast

from streamdec.core.byte_runs import ByteFallbackMode
from streamdec.core.compile import compile_token_bytes
from streamdec.core.program import DEFAULT_OPTIONS, Options, Program, Route, cascade_of
from streamdec.core.rows import Rows
from streamdec.core.shelf import Shelf, ShelfStatistics
from streamdec.core.token_bytes import TokenBytes
from streamdec.core.window_program import WindowProgram
from streamdec.errors import StreamdecWarning
from streamdec.hooks import untold
from streamdec.protocols import Decoder, TableDecoder

__all__ = ["AnyProgram", "program_for", "route_of", "shared", "table_statistics"]

AnyProgram: TypeAlias = Program | WindowProgram
R = TypeVar("R", bound=Rows)

_METHODS = ("decode", "piece", "is_skipped", "sample_ids")
"""Of a TableDecoder: what is called to compile and to verify it."""

_shelf = Shelf[Rows](max_tables=64, max_proven=48, max_size=2**18)
"""What was made of programs, for all tokenizers: at most about 32 MB."""


class _Compiled:
    """What was compiled for one tokenizer, and the programs made of it."""

    def __init__(self, decoder: TableDecoder) -> None:
        missing = [name for name in _METHODS if not callable(getattr(decoder, name, None))]
        if missing:
            raise TypeError(
                f"{decoder!r:.80} has rules, so it must have all of TableDecoder "
                f"(streamdec.protocols), and has not: {', '.join(missing)}"
            )
        self._machines: dict[tuple[bool, ByteFallbackMode], TokenBytes] = {}
        self._programs: dict[Options, Program] = {}
        self.is_exact = True
        with untold:
            difference = self._first_difference(decoder)
        if difference:
            self.is_exact = False
            warnings.warn(
                f"{decoder!r:.200}: {difference}; streaming over a window of decode() instead",
                StreamdecWarning,
                stacklevel=5,
            )

    def machine(
        self, decoder: TableDecoder, skip: bool, byte_fallback: ByteFallbackMode
    ) -> TokenBytes | None:
        machine = self._machines.get((skip, byte_fallback))
        if machine is None:
            compiled = compile_token_bytes(
                decoder, skip_special_tokens=skip, byte_fallback=byte_fallback
            )
            if compiled is None:
                return None
            machine = self._machines.setdefault((skip, byte_fallback), compiled)
        return machine

    def program(self, decoder: TableDecoder, options: Options) -> Program | None:
        machine = self.machine(decoder, options.skip_special_tokens, options.byte_fallback)
        if machine is None or decoder.rules is None:
            return None
        program = self._programs.get(options)
        if program is None:
            cascade = cascade_of(decoder.rules.replaces, options)
            program = self._programs.setdefault(options, Program(machine, options, cascade))
        return program

    def _first_difference(self, decoder: TableDecoder) -> str | None:
        """How the compiled table differs from ``decode`` on a sample; None if it does not."""
        sample = list(decoder.sample_ids())
        trials = [sample, sample[::-1], *([token_id] for token_id in sample[::8])]
        for skip in (True, False):
            program = self.program(decoder, Options(skip, "exact"))
            if program is None:
                return None
            for trial in trials:
                expected = decoder.decode(trial, skip_special_tokens=skip)
                if _stream(program, trial) != expected:
                    token_id = _culprit(decoder, program, trial, skip)
                    return f"the compiled table differs from decode() at id {token_id}"
        return None


def _stream(program: Program, token_ids: Sequence[int]) -> str:
    memory = program.prime(())
    texts = []
    for token_id in token_ids:
        try:
            text, memory = program.transition(memory, token_id)
        except KeyError:
            continue
        texts.append(text)
    return "".join(texts) + program.flush(memory)[0]


def _culprit(decoder: TableDecoder, program: Program, ids: Sequence[int], skip: bool) -> int:
    for size in range(1, len(ids)):
        if _stream(program, ids[:size]) != decoder.decode(ids[:size], skip_special_tokens=skip):
            return ids[size - 1]
    return ids[-1]


_compiled: dict[int, _Compiled] = {}


def _forget(decoder_id: int) -> None:
    _compiled.pop(decoder_id, None)
    _shelf.drop(lambda key: key[0] == decoder_id)


def _compiled_for(decoder: TableDecoder) -> _Compiled:
    """The one compilation of ``decoder``, for as long as it lives."""
    compiled = _compiled.get(id(decoder))
    if compiled is None:
        compiled = _Compiled(decoder)
        try:
            weakref.finalize(decoder, _forget, id(decoder))
        except TypeError:  # no weak references to it: compiled for one stream alone
            return compiled
        compiled = _compiled.setdefault(id(decoder), compiled)
    return compiled


def program_for(decoder: Decoder, options: Options = DEFAULT_OPTIONS) -> AnyProgram:
    """The program of ``decoder`` and ``options``, shared by all their streams.

    Raises ValueError or TypeError for bad options, and for those that the windowed route cannot
    honour.
    """
    options.check()
    if getattr(decoder, "rules", None) is not None:
        table = cast(TableDecoder, decoder)
        compiled = _compiled_for(table)
        program = compiled.program(table, options) if compiled.is_exact else None
        if program is not None:
            return program
    if not callable(getattr(decoder, "decode", None)):
        hint = "; load_tokenizer() makes one of a path" if _is_path(decoder) else ""
        raise TypeError(
            f"a tokenizer must have decode(token_ids, ...), and {decoder!r:.80} has not{hint}"
        )
    return WindowProgram(decoder, options)


def _is_path(given: object) -> bool:
    return isinstance(given, (str, os.PathLike))


def shared(decoder: Decoder, key: Hashable, make: Callable[[], R]) -> R:
    """A table over the program of ``decoder``, shared by all who ask for it under ``key``.

    How many are kept, and how large they may be together, is limited.
    """
    if id(decoder) not in _compiled:
        return make()
    return cast(R, _shelf.get((id(decoder), key), make))


def table_statistics() -> ShelfStatistics:
    """The tables that ``shared`` keeps now, and how many it let go to make room."""
    return _shelf.statistics()


def route_of(decoder: Decoder) -> Route:
    """``"bytes"`` if ``decoder`` was compiled and agrees with its own decode, or ``"window"``."""
    return program_for(decoder).route

"""Which program serves a tokenizer: compiled once, verified, and shared by all its streams."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias, TypeVar, cast

from streamdec.core.byte_runs import ByteRuns
from streamdec.core.compile import compile_token_bytes
from streamdec.core.program import DEFAULT_OPTIONS, Options, Program, Route, cascade_of
from streamdec.core.rows import Rows
from streamdec.core.token_bytes import TokenBytes
from streamdec.core.window_program import WindowProgram
from streamdec.errors import StreamdecWarning
from streamdec.protocols import Decoder, TableDecoder

__all__ = ["MAX_PROGRAMS", "AnyProgram", "program_for", "route_of", "shared"]

MAX_PROGRAMS = 64
"""Programs kept for one tokenizer, the least recently used forgotten first."""

AnyProgram: TypeAlias = Program | WindowProgram
R = TypeVar("R", bound=Rows)


class _Compiled:
    """What was compiled for one tokenizer, and the programs made of it."""

    def __init__(self, decoder: TableDecoder) -> None:
        self._machines: dict[tuple[bool, ByteRuns], TokenBytes] = {}
        self._programs: OrderedDict[Hashable, Rows] = OrderedDict()
        self._lock = threading.Lock()
        self.is_exact = True
        difference = self._first_difference(decoder)
        if difference:
            self.is_exact = False
            warnings.warn(
                f"{decoder!r:.200}: {difference}; streaming over a window of decode() instead",
                StreamdecWarning,
                stacklevel=5,
            )

    def machine(self, decoder: TableDecoder, skip: bool, byte_runs: ByteRuns) -> TokenBytes | None:
        machine = self._machines.get((skip, byte_runs))
        if machine is None:
            compiled = compile_token_bytes(decoder, skip_special_tokens=skip, byte_runs=byte_runs)
            if compiled is None:
                return None
            machine = self._machines.setdefault((skip, byte_runs), compiled)
        return machine

    def program(self, decoder: TableDecoder, options: Options) -> Program | None:
        machine = self.machine(decoder, options.skip_special_tokens, options.byte_runs)
        if machine is None or decoder.rules is None:
            return None
        cascade = cascade_of(decoder.rules.replaces, options)
        return self.shared(options, lambda: Program(machine, options, cascade))

    def shared(self, key: Hashable, make: Callable[[], R]) -> R:
        """The program of ``key``, made at first use; the least recently used are forgotten."""
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = make()
                while len(self._programs) > MAX_PROGRAMS:
                    self._programs.popitem(last=False)
            else:
                self._programs.move_to_end(key)
            return cast(R, program)

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


def _compiled_for(decoder: TableDecoder) -> _Compiled:
    """The one compilation of ``decoder``, for as long as it lives."""
    compiled = _compiled.get(id(decoder))
    if compiled is None:
        compiled = _Compiled(decoder)
        try:
            weakref.finalize(decoder, _compiled.pop, id(decoder), None)
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
        raise TypeError(
            f"a tokenizer must have decode(token_ids, ...), and {decoder!r:.80} has not"
        )
    return WindowProgram(decoder, options)


def shared(decoder: Decoder, key: Hashable, make: Callable[[], R]) -> R:
    """A program over that of a compiled ``decoder``, shared by all its streams under ``key``."""
    return _compiled_for(cast(TableDecoder, decoder)).shared(key, make)


def route_of(decoder: Decoder) -> Route:
    """``"bytes"`` if ``decoder`` was compiled and agrees with its own decode, or ``"window"``."""
    return program_for(decoder).route

"""Decide whether fastokens may encode for one ``tokenizer.json``.

In: the file and the library's tokenizer. Out: a fast encoder that gave the same ids, or the reason
why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Literal, Protocol

from tokenizers import Tokenizer

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.fastpath._fastokens import FastEncoder, Mode, Stopped, ids_of, import_fastokens
from streamdec.fastpath._probes import probes_of, static_faults

_PROBES_AT_ONCE = 256
_EVERY = 8
"""One probe in this many is also compared in the other modes of encoding."""


class SlowIds(Protocol):
    """How the other library encodes texts."""

    def __call__(
        self, texts: Sequence[str], *, add_special_tokens: bool, special: Literal["parse", "text"]
    ) -> list[bytes]:
        """Return the ids of each text, four bytes each."""
        ...


class FastokensCheck:
    """The check of fastokens against one file, step by step.

    Args:
        tokenizer: The Hugging Face library's tokenizer of the file.
        content: a function that returns the bytes of the ``tokenizer.json``; it may take some time.
        renumbered: as for ``static_faults``.
        slow_ids: a function that encodes with the other library; see SlowIds.
        is_stopped: a function that is called between steps; if it returns True, the check raises
            :class:`Stopped`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        content: Callable[[], bytes],
        *,
        renumbered: Sequence[str],
        slow_ids: SlowIds,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._tokenizer = tokenizer
        self._content = content
        self._renumbered = renumbered
        self._slow_ids = slow_ids
        self._is_stopped = is_stopped
        self.probes = 0
        self.differing: list[str] = []
        self.seconds: dict[str, float] = {}

    def _check_rules(self) -> None:
        try:
            faults = static_faults(self._tokenizer, self._renumbered)
            fault = next(iter(faults), None)
        except TokenizerLibraryError as error:
            raise _not_compared(error) from error
        if fault is not None:
            raise TokenizerLoadError(f"fastokens may give other ids: {fault}")

    def build_and_compare(self) -> FastEncoder:
        """Return an encoder that gave the same ids for all probes.

        Raises MissingExtraError without fastokens, TokenizerLoadError with the reason if there is
        no such encoder, and :class:`Stopped`.
        """
        try:
            # A library may fail on a probe, and a file need not be UTF-8 everywhere.
            return self._build_and_compare()
        except (TokenizerLibraryError, UnicodeDecodeError) as error:
            raise _not_compared(error) from error

    def _build_and_compare(self) -> FastEncoder:
        import_fastokens()
        self._check_rules()
        text = self._content().decode("utf-8-sig")
        self._go_on()
        started = perf_counter()
        encoder = FastEncoder(text)
        built = perf_counter()
        self.seconds["fastokens"] = built - started
        self._go_on()
        self._compare(encoder)
        self.seconds["probes"] = perf_counter() - built
        if self.differing:
            raise TokenizerLoadError(f"fastokens gives other ids for {self.differing[0]!r:.200}")
        return encoder

    def _compare(self, encoder: FastEncoder) -> None:
        probes = probes_of(self._tokenizer)
        added = self._tokenizer.get_added_tokens_decoder()
        special = {token_id for token_id, token in added.items() if token.special}
        different: dict[str, None] = {}
        spelling: list[str] = []
        for place, (probe, fast, slow) in enumerate(self._pairs(encoder, probes, (False, "parse"))):
            if fast != slow:
                different[probe] = None
            # A single short text is encoded by another function of fastokens.
            if place % _EVERY == 0 and encoder.ids_alone(probe) != ids_of(slow).tolist():
                different[probe] = None
            if not special.isdisjoint(ids_of(slow)):
                spelling.append(probe)
        # The tokens added around a text do not depend on the text, so a sample is enough. With
        # special="text", only texts with the name of a special token can have other ids.
        some = probes[::_EVERY]
        rest: list[tuple[Mode, Sequence[str]]] = [((True, "parse"), some)]
        # A special token that the model has as a word may be the word of another text.
        contents = [token.content for token in added.values() if token.special]
        rest.append(((False, "text"), [*spelling, *some, *contents]))
        for mode, compared in rest:
            triples = self._pairs(encoder, compared, mode)
            different.update((probe, None) for probe, fast, slow in triples if fast != slow)
        self.probes, self.differing = len(probes), list(different)

    def _pairs(
        self, encoder: FastEncoder, probes: Sequence[str], mode: Mode
    ) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield each probe, its ids by fastokens, and its ids by huggingface."""
        add, special = mode
        for start in range(0, len(probes), _PROBES_AT_ONCE):
            self._go_on()
            part = probes[start : start + _PROBES_AT_ONCE]
            found = encoder.ids(part, add_special_tokens=add, special=special)
            expected = self._slow_ids(part, add_special_tokens=add, special=special)
            yield from zip(part, found, expected, strict=True)

    def _go_on(self) -> None:
        if self._is_stopped():
            raise Stopped


def _not_compared(error: Exception) -> TokenizerLoadError:
    return TokenizerLoadError(f"fastokens could not be compared: {error}")

"""Decide whether fastokens may encode for one ``tokenizer.json``.

In: the file and the library's tokenizer. Out: a fast encoder that gave the same ids, or the reason
why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from tokenizers import Tokenizer

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.fastpath._fastokens import FastEncoder, Stopped, ids_of, import_fastokens
from streamdec.fastpath._probes import probes_of, static_faults

_PROBES_AT_ONCE = 256
_EVERY = 8
"""One probe in this many is also compared in the other modes of encoding."""


@dataclass
class FastokensCheck:
    """The check of fastokens against one file, step by step."""

    tokenizer: Tokenizer
    """The Hugging Face library's tokenizer of the file."""
    content: Callable[[], bytes]
    """Returns the ``tokenizer.json``; it may take some time."""
    renumbered: Sequence[str]
    """As for ``static_faults``."""
    slow_ids: Callable[..., list[bytes]]
    """Encodes with the other library, as ``FastEncoder.ids`` does."""
    is_stopped: Callable[[], bool]
    """Called between steps; if it returns True, the check raises :class:`Stopped`."""
    probes: int = 0
    differing: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def build_and_compare(self) -> FastEncoder:
        """Return an encoder that gave the same ids for all probes.

        Raises MissingExtraError without fastokens, TokenizerLoadError with the reason if there is
        no such encoder, and :class:`Stopped`.
        """
        import_fastokens()
        try:
            # A library may fail on a probe, and a file need not be UTF-8 everywhere.
            return self._build_and_compare()
        except (TokenizerLibraryError, UnicodeDecodeError) as error:
            raise TokenizerLoadError(f"fastokens could not be compared: {error}") from error

    def _build_and_compare(self) -> FastEncoder:
        fault = next(static_faults(self.tokenizer, self.renumbered), None)
        if fault is not None:
            raise TokenizerLoadError(f"fastokens may give other ids: {fault}")
        text = self.content().decode("utf-8-sig")
        self._go_on()
        started = perf_counter()
        encoder = FastEncoder(text)
        built = perf_counter()
        self._go_on()
        self.differing = list(self._different(encoder))
        self.seconds = {"fastokens": built - started, "probes": perf_counter() - built}
        if self.differing:
            raise TokenizerLoadError(f"fastokens gives other ids for {self.differing[0]!r:.200}")
        return encoder

    def _different(self, encoder: FastEncoder) -> dict[str, None]:
        """Return the probes that have other ids, in order."""
        probes = probes_of(self.tokenizer)
        self.probes = len(probes)
        added = self.tokenizer.get_added_tokens_decoder()
        special = {token_id for token_id, token in added.items() if token.special}
        found: dict[str, None] = {}
        spelling: list[str] = []
        for place, (probe, fast, slow) in enumerate(self._pairs(encoder, probes)):
            # A single short text is encoded by another function of fastokens.
            alone = encoder.ids_alone(probe) if place % _EVERY == 0 else None
            ids = ids_of(slow)
            if fast != slow or (alone is not None and alone != ids.tolist()):
                found[probe] = None
            if not special.isdisjoint(ids):
                spelling.append(probe)
        # The tokens added around a text do not depend on the text, so a sample is enough. With
        # special="text", only texts with the name of a special token can have other ids. A special
        # token that the model has as a word may be the word of another text.
        some = probes[::_EVERY]
        names = [token.content for token in added.values() if token.special]
        others = (
            *self._pairs(encoder, some, add_special_tokens=True),
            *self._pairs(encoder, [*spelling, *some, *names], special="text"),
        )
        found.update((probe, None) for probe, fast, slow in others if fast != slow)
        return found

    def _pairs(
        self,
        encoder: FastEncoder,
        probes: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Literal["parse", "text"] = "parse",
    ) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield each probe, its ids by fastokens, and its ids by huggingface."""
        for start in range(0, len(probes), _PROBES_AT_ONCE):
            self._go_on()
            part = probes[start : start + _PROBES_AT_ONCE]
            found = encoder.ids(part, add_special_tokens=add_special_tokens, special=special)
            expected = self.slow_ids(part, add_special_tokens=add_special_tokens, special=special)
            yield from zip(part, found, expected, strict=True)

    def _go_on(self) -> None:
        if self.is_stopped():
            raise Stopped

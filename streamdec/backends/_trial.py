"""Whether fastokens is to be trusted with one ``tokenizer.json``, found out before it encodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Literal, Protocol

from tokenizers import Tokenizer

from streamdec.backends._fastokens import FastEncoder
from streamdec.backends._probes import GUARDED, probes_of, static_faults
from streamdec.backends._shadow import Mode, ids_of
from streamdec.errors import MissingExtraError, TokenizerLibraryError, TokenizerLoadError

__all__ = ["Stopped", "Trial"]

_PROBES_AT_ONCE = 256
_EVERY = 8
"""Of so many probes one is compared in the other ways of encoding, whatever it spells."""


class SlowIds(Protocol):
    """How the library that judges encodes texts."""

    def __call__(
        self, texts: Sequence[str], *, add_special_tokens: bool, special: Literal["parse", "text"]
    ) -> list[bytes]:
        """The ids of each text, four bytes each."""
        ...


class Stopped(Exception):  # noqa: N818 (it is no error)
    """The program ends: nobody will encode."""


class Trial:
    """Whether fastokens is to be trusted with one file, found out step by step."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        content: bytes,
        *,
        renumbered: Sequence[str],
        slow_ids: SlowIds,
        is_stopped: Callable[[], bool],
    ) -> None:
        """``tokenizer`` and ``slow_ids`` are the library's that judges, of the file ``content``.

        ``renumbered`` is as for ``static_faults``; ``is_stopped`` is asked again and again.
        """
        self._tokenizer = tokenizer
        self._content = content
        self._renumbered = renumbered
        self._slow_ids = slow_ids
        self._is_stopped = is_stopped
        self.encoder: FastEncoder | None = None
        self.is_trusted = False
        self.guarded = ""
        self.probes = 0
        self.differing: list[str] = []
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        """Raises TokenizerLoadError or MissingExtraError where it is not, saying why."""
        try:
            self._run()
        except (MissingExtraError, TokenizerLoadError):
            raise
        # A library that fails on a probe, or a file that is not UTF-8 where it does not matter.
        except (TokenizerLibraryError, UnicodeDecodeError) as error:
            raise TokenizerLoadError(f"fastokens could not be compared: {error}") from error

    def _run(self) -> None:
        faults = static_faults(self._tokenizer, self._renumbered)
        if fault := next(iter(faults), None):
            raise TokenizerLoadError(f"fastokens may give other ids: {fault}")
        text = self._content.decode("utf-8-sig")
        self._go_on()
        started = perf_counter()
        self.encoder = FastEncoder(text)
        built = perf_counter()
        self.seconds["fastokens"] = built - started
        self._go_on()
        self._compare(self.encoder)
        self.seconds["probes"] = perf_counter() - built
        strangers = [probe for probe in self.differing if GUARDED not in probe]
        if strangers:
            raise TokenizerLoadError(f"fastokens gives other ids for {strangers[0]!r:.200}")
        self.guarded = GUARDED if self.differing else ""
        self.is_trusted = True

    def _compare(self, encoder: FastEncoder) -> None:
        probes = probes_of(self._tokenizer)
        added = self._tokenizer.get_added_tokens_decoder()
        special = {token_id for token_id, token in added.items() if token.special}
        different: dict[str, None] = {}
        spelling: list[str] = []
        for probe, own, other in self._pairs(encoder, probes, (False, "parse")):
            if own != other:
                different[probe] = None
            if not special.isdisjoint(ids_of(other)):
                spelling.append(probe)
        # What is added around a text does not hang on it. As text, only what spells a special token
        # can have other ids than before.
        some = probes[::_EVERY]
        rest: list[tuple[Mode, Sequence[str]]] = [((True, "parse"), some)]
        rest.append(((False, "text"), [*spelling, *some]))
        for mode, compared in rest:
            triples = self._pairs(encoder, compared, mode)
            different.update((probe, None) for probe, own, other in triples if own != other)
        self.probes, self.differing = len(probes), list(different)

    def _pairs(
        self, encoder: FastEncoder, probes: Sequence[str], mode: Mode
    ) -> Iterator[tuple[str, bytes, bytes]]:
        """Each probe, its ids by fastokens, and by huggingface."""
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

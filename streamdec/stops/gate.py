r"""Where in a stream stops count: outside of the sections that markers enclose.

**Theory.** The gate is an automaton beside the matcher. State ``OPEN`` (0) is outside of all
sections: stops count, and the opening marker of any section is searched. State *n* is inside
section *n*: only end-of-sequence ids and ``max_tokens`` end the stream, and only the closing marker
of that section is searched.

A marker is an id or a text. The text may be the name of skipped special tokens, which have no text
in a stream; then their ids are markers too. Where texts are searched, the state has a second part,
the *marker tail*: the suffix of the text that may become the next marker.

**A worked example.** Reasoning, which ends with its own token, and quotes:

>>> from streamdec import StopConditions
>>> from streamdec.stops.gate import OPEN, gate_of
>>> pairs = [("<think>", 7), ("<q>", "</q>")]
>>> gate = gate_of(StopConditions("x", ignore_stops_between=pairs), {})
>>> gate.read(OPEN, "", "a<q")                      # nothing is complete: a marker tail
(None, '<q', 0)
>>> marker, tail, state = gate.read(OPEN, "<q", ">b")
>>> marker.text, marker.end, state                  # complete after one letter: inside section 2
('<q>', 1, 2)
>>> gate.by_id(2, 7), gate.by_id(1, 7)              # the id ends section 1, and no other
(None, 0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import index
from typing import Any, SupportsIndex

from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder
from streamdec.stops.conditions import Marker, StopConditions
from streamdec.stops.matcher import Hit, StopStrings

OPEN = 0
"""The state outside of all sections."""

Sections = Sequence[tuple[Marker, Marker]]


class Gate:
    """The automaton of some sections.

    Args:
        sections: pairs of an opening and a closing marker, each an id or a text.
        start: the state in which streams begin.
        skipped: markers that are the text of skipped special tokens, with the ids of these.
    """

    __slots__ = ("_ids", "_targets", "_texts", "exists", "ids", "start")

    def __init__(
        self, sections: Sections, start: int, skipped: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.start: int = start
        self.exists: bool = bool(sections)
        """Whether there are sections."""
        openings = {opening: state for state, (opening, _) in enumerate(sections, 1)}
        # For each state: the state that each marker leads to.
        self._targets: list[dict[Marker, int]] = [
            openings,
            *({closing: OPEN} for _, closing in sections),
        ]
        self._ids = [_by_id(targets, skipped) for targets in self._targets]
        texts = [[each for each in targets if isinstance(each, str)] for targets in self._targets]
        self._texts = [StopStrings(each) if each else None for each in texts]
        self.ids: frozenset[int] = frozenset().union(*self._ids)
        """The ids that are markers."""

    @property
    def reads_text(self) -> bool:
        """Whether a marker is a text."""
        return any(self._texts)

    def firsts(self, state: int) -> frozenset[str]:
        """Return the letters with which a marker may begin in ``state``."""
        texts = self._texts[state]
        return texts.firsts if texts is not None else frozenset()

    def read(self, state: int, tail: str, text: str) -> tuple[Hit | None, str, int]:
        """Read ``text`` up to the first complete marker.

        Returns the marker (None: no marker is complete), the marker tail and the state after it.
        """
        texts = self._texts[state]
        if texts is None:
            return None, "", state
        tail, hit = texts.step(tail, text)
        if hit is None:
            return None, tail, state
        return hit, "", self._targets[state][hit.stop]

    def by_id(self, state: int, token_id: int) -> int | None:
        """Return the state after ``token_id``; None if it is not a marker in ``state``."""
        return self._ids[state].get(token_id)

    def can_be(self, state: int, tail: str) -> bool:
        """Whether a stream can be in ``state`` with this marker tail."""
        if not 0 <= state < len(self._targets):
            return False
        texts = self._texts[state]
        return not tail or (texts is not None and texts.is_tail(tail))


def _by_id(targets: Mapping[Marker, int], skipped: Mapping[str, tuple[int, ...]]) -> dict[int, int]:
    """The ids that are markers, each with the state after it.

    These are the ids among ``targets``, and the ids of skipped special tokens whose text is among
    them.
    """
    found: dict[int, int] = {}
    for marker, state in targets.items():
        if isinstance(marker, str):
            for token_id in skipped.get(marker, ()):
                found.setdefault(token_id, state)
        else:
            found.setdefault(marker, state)
    return found


NO_GATE = Gate((), OPEN, {})
"""The gate of conditions without markers."""


def gate_of(conditions: StopConditions, skipped: Mapping[str, tuple[int, ...]]) -> Gate:
    """Return the gate of ``conditions``; ``skipped`` is as for Gate."""
    sections = conditions.ignore_stops_between
    if not sections:
        return NO_GATE
    return Gate(sections, 1 if conditions.starts_inside else OPEN, skipped)


# --- the prompt -----------------------------------------------------------------------------------


class PromptMarkers:
    """The markers of sections, as they are found in prompts.

    A text that the tokenizer always encodes as one token is found by its id, in one pass over the
    ids of a prompt. Where other texts are searched, the ids after the last such id are decoded.

    Args:
        sections: pairs of an opening and a closing marker. A marker that opens one section and
            closes another counts as an opening marker.
        tokenizer: the tokenizer of the streams. No reference is kept, or it would never be freed.
    """

    __slots__ = ("_by_id", "_by_text")

    def __init__(self, sections: Sections, tokenizer: Decoder) -> None:
        self._by_id: dict[int, int] = {}
        self._by_text: dict[str, int] = {}
        openings = [(opening, state) for state, (opening, _) in enumerate(sections, 1)]
        for marker, state in [*openings, *((closing, OPEN) for _, closing in sections)]:
            token_id = _only_token(tokenizer, marker) if isinstance(marker, str) else marker
            if token_id is not None:
                self._by_id.setdefault(token_id, state)
            elif isinstance(marker, str):
                self._by_text.setdefault(marker, state)

    def state_after(self, tokenizer: Decoder, prompt: Sequence[SupportsIndex]) -> int:
        """Return the gate's state after the last marker in ``prompt``; OPEN without one."""
        backwards, size, state = [*reversed(prompt)], len(prompt), OPEN
        for token_id, after in self._by_id.items():
            with suppress(ValueError):
                size, state = backwards.index(token_id, 0, size), after
        if not self._by_text or not size:
            return state
        rest = [*map(index, reversed(backwards[:size]))]
        text = tokenizer.decode(rest, skip_special_tokens=False)
        found = [each for each in self._by_text if each in text]
        if not found:
            return state
        return self._by_text[max(found, key=lambda each: (text.rfind(each) + len(each), len(each)))]


def _only_token(tokenizer: Any, text: str) -> int | None:
    """Return the id of the token that always encodes ``text``, or None.

    None for a word, which may be part of a longer token. Other texts are encoded with some letters
    on both sides as a test.
    """
    encode = getattr(tokenizer, "encode", None)
    token_to_id = getattr(tokenizer, "token_to_id", None)
    token_id = token_to_id(text) if token_to_id is not None else None
    if not isinstance(token_id, int) or encode is None or text[0].isalnum() or text[-1].isalnum():
        return None
    for beside in ("a", " ", "\n", ".", "<", text):
        try:
            ids = encode(f"{beside}{text}{beside}", add_special_tokens=False).ids
        except StreamdecError:  # the tokenizer has no token for the letter, or for the text
            if beside == text:
                return None
            continue
        if [*ids].count(token_id) != (3 if beside == text else 1):
            return None
    return token_id

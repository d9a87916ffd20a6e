"""One example of a law: a detokenizer, a tokenizer and drawn data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hypothesis import strategies as st

from streamdec.testing import strategies
from streamdec.testing.detokenizers import (
    ConformanceError,
    MakeDetokenizer,
    Request,
    Transcript,
    drive,
)
from streamdec.testing.expectations import Certain, certain_text, whole_text
from streamdec.testing.subjects import Subject

MOST_SHOWN = 300
"""The most characters of a text that a failure quotes."""


@dataclass
class Driven:
    """A detokenizer with a tokenizer, and the expected text."""

    subject: Subject
    make: MakeDetokenizer
    fed: int = field(default=0, init=False)
    """The number of ids that the detokenizer has read."""
    beside: Sequence[int] = field(default=(), init=False)
    """The ids that a second stream reads before each call."""

    def whole(self, ids: Sequence[int], *, skip: bool) -> str:
        """Return the tokenizer's own decode."""
        return whole_text(self.subject, ids, skip_special_tokens=skip)

    def certain(self, ids: Sequence[int], *, skip: bool) -> Certain:
        """Return the beginning of the text that no later token can change."""
        return certain_text(self.subject, ids, skip_special_tokens=skip)

    def drive(self, request: Request, groups: Sequence[Sequence[int]]) -> Transcript:
        """Return the output of the detokenizer. Its ConformanceError shows the example."""
        try:
            found = drive(self.make, self.subject.streamed, request, groups, self.beside)
        except ConformanceError as error:
            raise ConformanceError(self.message(request, groups, str(error))) from error
        self.fed += sum(map(len, groups))
        return found

    def message(self, request: Request, groups: Sequence[Sequence[int]], *what: str) -> str:
        """Return the request, the ids of each call and their bytes, and ``what``."""
        lines = [f"request   {request!r}"] if request != Request() else []
        lines.append(f"step      {', '.join(str(list(group)) for group in groups)}")
        lines.append(f"bytes     {self._pieces(i for group in groups for i in group)}")
        if request.prompt_token_ids:
            lines.append(f"prompt    {self._pieces(request.prompt_token_ids)}")
        if self.beside:
            lines.append(f"before each call, another stream reads {list(self.beside)}")
        return "\n".join([*lines, *what])

    def _pieces(self, token_ids: Iterable[int]) -> str:
        pieces = map(self.subject.tokenizer.token_bytes, token_ids)
        return " ".join("(none)" if piece is None else repr(piece) for piece in pieces)

    def expect(
        self, request: Request, groups: Sequence[Sequence[int]], text: str, stop: str | None = None
    ) -> None:
        """Check that ``groups`` give exactly ``text``, and ``stop`` if it is reported.

        Raises NotImplementedError if only text of a missing ``flush`` is missing.
        """
        found = self.drive(request, groups)
        if found.text != text:
            if found.rest is None and text.startswith(found.text):
                raise NotImplementedError("flush")
            wrong = f"expected  {quoted(text)}", f"given     {quoted(found.text)}"
            raise ConformanceError(self.message(request, groups, *wrong))
        self.expect_stop(request, groups, found, stop)

    def expect_stop(
        self, request: Request, groups: Sequence[Sequence[int]], found: Transcript, stop: str | None
    ) -> None:
        """Check the reported stop, if the detokenizer reports stops."""
        reason = found.stop_reason
        if found.tells_stop and reason != stop and not (reason is True and stop is not None):
            wrong = f"expected  stop_reason {stop!r}", f"given     stop_reason {reason!r}"
            raise ConformanceError(self.message(request, groups, *wrong))


@dataclass
class Trial(Driven):
    """One example of a law, drawn by hypothesis."""

    data: st.DataObject

    def skip(self) -> bool:
        """Draw whether special tokens are skipped; small examples skip them."""
        return not self.data.draw(st.booleans())

    def ids(self, *, skip: bool, max_size: int = 24) -> list[int]:
        """Draw known ids without special tokens; byte-fallback tokens form characters."""
        return self.data.draw(_ids(self.subject, skip, max_size))

    def parted(self, *, skip: bool) -> tuple[list[int], list[int]]:
        """Draw ids in two parts. The second is not empty, and ends with complete text."""
        ids = self.ids(skip=skip) + self.word()
        size = self.data.draw(st.integers(1, len(ids)))
        return ids[:-size], ids[-size:]

    def word(self) -> list[int]:
        """Draw an id with complete text, after which no text is withheld."""
        return [self.data.draw(st.sampled_from((self.subject.words or self.subject.ordinary)[:8]))]


@lru_cache(maxsize=64)
def _ids(subject: Subject, skip: bool, max_size: int) -> st.SearchStrategy[list[int]]:
    text = text_ids(subject, skip, max_size)
    if subject.has_byte_fallback:
        return text
    any_ids = strategies.token_ids(subject, known=True, special=False, max_size=max_size)
    return st.one_of(any_ids, text)


@lru_cache(maxsize=64)
def text_ids(subject: Subject, skip: bool, max_size: int) -> st.SearchStrategy[list[int]]:
    """Generate ids like a model's, none of which is ever skipped."""
    text = strategies.running_text(
        subject, skip_special_tokens=skip, silent=False, max_size=max_size // 2
    )
    return text.map(lambda ids: [i for i in ids if not subject.tokenizer.is_skipped(i)])


def quoted(text: str) -> str:
    """Return ``text`` in quotes, cut after ``MOST_SHOWN`` characters."""
    more = len(text) - MOST_SHOWN
    return f"{text[:MOST_SHOWN]!r}" + (f" and {more:,} characters more" if more > 0 else "")

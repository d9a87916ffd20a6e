"""The added tokens of a HuggingFaceTokenizer, and which of them its decode skips.

In: the library's tokenizer. Out: its added tokens, and for each id whether it is skipped. No table
of the library contains the second, so the library decodes with and without skipping.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress

from tokenizers import AddedToken, Tokenizer

from streamdec.errors import TokenizerLibraryError
from streamdec.hooks import suppressed
from streamdec.locks import cached_property
from streamdec.protocols import TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import guarded


class AddedTokens(BaseTokenizer):
    """The added tokens of a tokenizer of ``tokenizers``."""

    _tokenizer: Tokenizer
    _skipped: dict[int, bool]
    """The answers of ``is_skipped``, by token id."""

    @property
    @abstractmethod
    def rules(self) -> TextRules | None:
        """The rules of decoding; None if the decoder is unknown."""

    # --- added tokens -----------------------------------------------------------------------------

    @cached_property
    def _added_tokens(self) -> dict[int, AddedToken]:
        return guarded(self._tokenizer.get_added_tokens_decoder)

    @cached_property
    def _added_texts(self) -> frozenset[str]:
        return frozenset(token.content for token in self._added_tokens.values())

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return frozenset(i for i, token in self._added_tokens.items() if token.special)

    def _special_texts(self) -> Iterator[tuple[str, int]]:
        for token_id in sorted(self._added_tokens):
            if (text := self.id_to_token(token_id)) is not None:
                yield text, token_id

    # --- skipped tokens ---------------------------------------------------------------------------

    def is_skipped(self, token_id: int) -> bool:
        # The library skips by text, so only ids with the text of an added token are tested, once
        # each.
        if (
            token_id not in self._added_tokens
            and self.id_to_token(token_id) not in self._added_texts
        ):
            return False
        answer = self._skipped.get(token_id)
        if answer is None:
            answer = self._skipped[token_id] = self._ask_if_skipped(token_id)
        return answer

    @property
    def _skipped_ids(self) -> list[int]:
        """The skipped added tokens, ids ascending.

        Usually these are the tokens marked as special, which two calls of the library confirm.
        """
        added = sorted(self._added_tokens)
        ordinary = [i for i in added if i not in self._special_ids]
        with suppress(TokenizerLibraryError), suppressed:  # a decoder may panic
            if self.decode(added) == self.decode(ordinary, skip_special_tokens=False):
                return sorted(self._special_ids)
        return [i for i in added if self.is_skipped(i)]

    def _ask_if_skipped(self, token_id: int) -> bool:
        """Return whether ``token_id`` is skipped, by decoding with and without skipping.

        A token that has no text alone is also decoded between, and before, other tokens: a CTC pad
        is between two equal ones, and Metaspace removes the first space.
        """
        contexts = [((i,), (i,)) for i in self._neighbours] + [((), (i,)) for i in self._neighbours]
        # An unknown decoder may panic on an empty list.
        for before, after in [((), ()), *contexts] if self.rules is not None else contexts:
            with suppress(TokenizerLibraryError), suppressed:
                ids = [*before, token_id, *after]
                shown = self.decode(ids, skip_special_tokens=False)
                if shown != self.decode(ids, skip_special_tokens=True):
                    return True
                if shown != self.decode([*before, *after], skip_special_tokens=False):
                    return False
        # It never has text, so the answer does not matter.
        return token_id in self._special_ids

    @cached_property
    def _neighbours(self) -> list[int]:
        """An ordinary token, one that begins with a space, and the first byte of a character."""
        ordinary = (i for i in range(1000) if self._is_ordinary(i))
        texts = {i: self.id_to_token(i) or "" for i in ordinary}
        spaced = [i for i, text in texts.items() if "\u2581" in text]
        lead = self.token_to_id("<0xC3>")
        return [*[*texts][:2], *spaced[:1], *([] if lead is None else [lead])]

    def _is_ordinary(self, token_id: int) -> bool:
        text = self.id_to_token(token_id)
        return bool(text) and token_id not in self._added_tokens and text not in self._added_texts

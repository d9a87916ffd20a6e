"""The added tokens of a HuggingFaceTokenizer, and which of them its decode skips.

In: the library's tokenizer. Out: its added tokens, and for each id whether it is skipped. No table
of the library contains the second, so the library decodes with and without skipping.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer

from streamdec.errors import TokenizerLibraryError
from streamdec.hooks import suppressed
from streamdec.locks import cached_property
from streamdec.protocols import TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import guarded

Context = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids before and after a token in question."""


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
        # Decode with and without skipping. The library skips by text, so only ids with the text of
        # an added token are tested, once each.
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
        try:
            with suppressed:
                if self.decode(added) == self.decode(ordinary, skip_special_tokens=False):
                    return sorted(self._special_ids)
        except TokenizerLibraryError:  # a decoder that panics
            pass
        return [i for i in added if self.is_skipped(i)]

    def _ask_if_skipped(self, token_id: int) -> bool:
        """Return whether ``token_id`` is skipped, by decoding with and without skipping.

        A token that has no text alone is also decoded beside other tokens.
        """
        for before, after in self._contexts():
            try:
                with suppressed:
                    shown = self.decode([*before, token_id, *after], skip_special_tokens=False)
                    if shown != self.decode([*before, token_id, *after], skip_special_tokens=True):
                        return True
                    if shown != self.decode([*before, *after], skip_special_tokens=False):
                        return False
            except TokenizerLibraryError:
                continue
        # It never has text, so the answer does not matter.
        return token_id in self._added_tokens and self._added_tokens[token_id].special

    def _contexts(self) -> Iterator[Context]:
        """Yield contexts in which a token can show whether it is skipped.

        The empty context comes first, because it suffices for nearly every token. An unknown
        decoder may panic on an empty list, so it does not get the empty context.
        """
        if self.rules is not None:
            yield (), ()
        yield from self._neighbours

    @cached_property
    def _neighbours(self) -> list[Context]:
        """Contexts in which a token without own text changes the text.

        Between two equal tokens (a CTC repeat, a space), as the first (Metaspace keeps the second
        space), and inside a character of two byte tokens.
        """
        ordinary = [i for i in range(1000) if self._is_ordinary(i)]
        spaced = [i for i in ordinary if "\u2581" in (self.id_to_token(i) or "")]
        contexts: list[Context] = [((i,), (i,)) for i in ordinary[:2]]
        contexts += [((), (i,)) for i in (*ordinary[:1], *spaced[:1])]
        lead, trail = self.token_to_id("<0xC3>"), self.token_to_id("<0xA9>")
        return contexts if lead is None or trail is None else [*contexts, ((lead,), (trail,))]

    def _is_ordinary(self, token_id: int) -> bool:
        text = self.id_to_token(token_id)
        return bool(text) and token_id not in self._added_tokens and text not in self._added_texts

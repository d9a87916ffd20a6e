"""The ids of tokens that are added to a loaded tokenizer.

In: the vocabulary of a ``tokenizer.json`` as the library read it, and tokens in the order of their
addition. Out: texts, ids and flags afterwards. The rule is the library's (tokenizers 0.23,
``added_vocabulary.rs``). An existing text keeps its id and gets the new flags. A new one gets the
id after the highest added token, or the first after the model's vocabulary. The rule is repeated
here because loading a large file a second time takes as long as the rest of a preflight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamdec.folders.added_vocabulary import AddedVocabulary, Token


class LoadedTokens:
    """The tokens of a tokenizer, with more added to them."""

    def __init__(
        self,
        bare: AddedVocabulary,
        model: Mapping[str, int],
        added: Mapping[int, tuple[str, bool]],
    ) -> None:
        """Begin with a vocabulary.

        Args:
            bare: The ``tokenizer.json``.
            model: Its texts and ids without added tokens.
            added: The added tokens so far: those of ``bare``, or none.
        """
        self._bare = bare
        self._model = model
        self._size = bare.model_size
        self.added = dict(added)
        """The text of each added token by id, and whether it is special."""
        self._ids = {text: i for i, (text, _) in self.added.items()}
        self._last = max(self.added, default=-1)

    def add(self, tokens: Iterable[Token]) -> None:
        """Add tokens; existing ones get new flags."""
        for token in tokens:
            if not token.content:
                continue
            found = self.id_of(token.content)
            if found is None:
                found = max(self._last + 1, self._size)
            self._last = max(self._last, found)
            self._ids[token.content] = found
            self.added[found] = (token.content, token.special)

    def id_of(self, text: str) -> int | None:
        """Return the id of the token ``text``; None if there is no such token."""
        found = self._ids.get(text)
        return self._model.get(text) if found is None else found

    def text_of(self, token_id: int) -> str | None:
        """Return the text of a token; None if no token has that id."""
        if token_id in self.added:
            return self.added[token_id][0]
        text = self._bare.text_of(token_id)
        # Added tokens of the file that were not taken over do not count.
        return text if text is not None and self._model.get(text) == token_id else None

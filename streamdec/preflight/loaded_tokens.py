"""Which ids added tokens get when they are added to a tokenizer that is already loaded.

In: the vocabulary of a ``tokenizer.json`` as the library read it, and tokens in the order in which
they are added. Out: texts, ids and flags as they are then. The rule is the library's own
(tokenizers 0.23, ``added_vocabulary.rs``): a text that is there keeps its id and takes the new
flags, another gets the id after the highest of the added tokens, or the first one after the model's
vocabulary. It is worked out here as loading a large file once more takes as long as all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamdec.folders.added_vocabulary import AddedVocabulary, Token

__all__ = ["LoadedTokens"]


class LoadedTokens:
    """The tokens of a tokenizer, with more added to them."""

    def __init__(
        self,
        bare: AddedVocabulary,
        model: Mapping[str, int],
        added: Mapping[int, tuple[str, bool]],
    ) -> None:
        """``model``: texts and ids without added tokens; ``added``: those that are there already.

        These are the added tokens of ``bare``, or none, where only its model's vocabulary is used.
        """
        self._bare = bare
        self._model = model
        self._size = bare.model_size
        self.added = dict(added)
        """Each added token's id, its text, and whether it is special."""
        self._ids = {text: i for i, (text, _) in self.added.items()}
        self._last = max(self.added, default=-1)

    def add(self, tokens: Iterable[Token]) -> None:
        """Adds tokens, or gives those that are there other flags."""
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
        """The id of the token that is exactly ``text``."""
        found = self._ids.get(text)
        return self._model.get(text) if found is None else found

    def text_of(self, token_id: int) -> str | None:
        """The text of a token; None if no token has that id."""
        if token_id in self.added:
            return self.added[token_id][0]
        text = self._bare.text_of(token_id)
        # An added token that was not taken over is none.
        return text if text is not None and self._model.get(text) == token_id else None

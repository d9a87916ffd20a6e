"""The tokens of a ``tokenizer.json``, with more added to them.

In: the vocabulary of the model, and tokens in the order of their addition. Out: texts, ids and
flags afterwards. The rule is the library's (tokenizers 0.23, ``added_vocabulary.rs``), which reads
the added tokens of the file in the same way. An existing text keeps its id and gets the new flags.
A new one gets the id after the highest added token, or the first after the model's vocabulary. The
rule is repeated here because loading a large file a second time takes as long as the rest of a
preflight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamdec.folders.declared_tokens import Token
from streamdec.locks import cached_property


class Vocabulary:
    """The texts and ids of a tokenizer."""

    def __init__(self, model: Mapping[str, int], tokens: Iterable[Token] = ()) -> None:
        """Begin with the texts and ids of the model, and add ``tokens``."""
        self.model = model
        self.added: dict[int, tuple[str, bool]] = {}
        """The text of each added token by id, and whether it is special."""
        self._ids: dict[str, int] = {}
        self._last = -1
        self.add(tokens)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {i: text for text, i in self.model.items()}

    def add(self, tokens: Iterable[Token]) -> None:
        """Add tokens; existing ones get new flags."""
        for token in tokens:
            if not token.content:
                continue
            found = self.id_of(token.content)
            if found is None:
                found = max(self._last + 1, len(self.model))
            self._last = max(self._last, found)
            self._ids[token.content] = found
            self.added[found] = (token.content, token.special)

    def id_of(self, text: str) -> int | None:
        """Return the id of the token ``text``; None if there is no such token."""
        found = self._ids.get(text)
        return self.model.get(text) if found is None else found

    def text_of(self, token_id: int) -> str | None:
        """Return the text of a token; None if no token has that id."""
        if token_id in self.added:
            return self.added[token_id][0]
        return self._texts.get(token_id)

"""The texts and ids of a ``tokenizer.json`` by its library, for comparisons."""

from __future__ import annotations

from tokenizers import Tokenizer

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.tokenizers._common import guarded


class AddedVocabulary:
    """The vocabulary of a ``tokenizer.json`` with its added tokens."""

    def __init__(self, content: bytes | str) -> None:
        """Raise :class:`TokenizerLoadError` if the library cannot read ``content``."""
        content = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        try:
            self._tokenizer = guarded(Tokenizer.from_buffer, content)
        except TokenizerLibraryError as error:
            raise TokenizerLoadError(f"not a tokenizer.json: {error.__cause__}") from error

    def added(self) -> dict[int, tuple[str, bool]]:
        """Return the text of each added token by id, and whether it is special."""
        found = guarded(self._tokenizer.get_added_tokens_decoder)
        return {i: (token.content, token.special) for i, token in sorted(found.items())}

    def id_of(self, text: str) -> int | None:
        """Return the id of the token ``text``; None if there is no such token."""
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate, which JSON can write and no token can have
            return None
        return guarded(self._tokenizer.token_to_id, text)

    def text_of(self, token_id: int) -> str | None:
        """Return the text of a token as the vocabulary spells it."""
        if not 0 <= token_id < 2**32:
            return None
        return guarded(self._tokenizer.id_to_token, token_id)

    @property
    def model_size(self) -> int:
        """The number of tokens of the model: the first id that an added token may get."""
        return guarded(self._tokenizer.get_vocab_size, with_added_tokens=False)

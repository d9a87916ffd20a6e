"""The fast tokenizer of transformers."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer


class TokenizersBackend:
    """Holds a ``tokenizers.Tokenizer``."""

    is_fast = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._tokenizer: Tokenizer = kwargs["tokenizer_object"]
        self.clean_up_tokenization_spaces = kwargs.get("clean_up_tokenization_spaces", False)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def backend_tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **kwargs: Any,
    ) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> Any:
        return self._decode(token_ids, skip_special_tokens)

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **kwargs: Any,
    ) -> list[str]:
        return [self._decode(each, skip_special_tokens) for each in sequences]


PreTrainedTokenizerFast = TokenizersBackend

"""mlx-lm: a streaming detokenizer with the methods of mlx-lm's own.

Pass the class to mlx-lm's wrapper, ``TokenizerWrapper(hf_tokenizer, StreamingDetokenizer)``:
``stream_generate`` and the server then use it. For stops, use ``iter_chunks`` on the iterator of
``generate_step``.

Tried with mlx-lm 0.32.2 and mlx 0.32.4 on Linux. This module imports neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from streamdec.core.decode_stream import DecodeStream

__all__ = ["StreamingDetokenizer"]


class StreamingDetokenizer:
    r"""The interface of mlx-lm's ``StreamingDetokenizer``, with exact text.

    ``mlx_lm.tokenizer_utils`` has the original. After ``finalize`` the text is
    ``tokenizer.decode(tokens)`` (for broken runs of byte tokens, with ``byte_fallback="exact"``).
    Before, it is the part that no later token can change. ``TokenizerWrapper`` copies and resets
    one for each request. After a ``reset`` a copy shares nothing with its original.

    Args:
        tokenizer: a tokenizer of transformers or of streamdec.
        prompt_token_ids: the ids of the prompt, as context. Without them, the text begins like that
            of a full decode: a tokenizer may remove the space before the first word.
        skip_special_tokens: as for DecodeStream, but False by default, as in mlx-lm.
        options: as for DecodeStream, such as ``byte_fallback``.

    Raises the errors of DecodeStream; TypeError for an object that is not a tokenizer.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.mlx_lm import StreamingDetokenizer
    >>> detokenizer = StreamingDetokenizer(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
    >>> for token in (0, 1, 2):
    ...     detokenizer.add_token(token)
    ...     print(repr(detokenizer.last_segment))
    'caf'
    ''
    'é'
    """

    tokens: list[int]
    """All tokens so far."""
    offset: int
    """How many code points ``last_segment`` has returned."""

    def __init__(
        self,
        tokenizer: Any,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = False,
        **options: Any,
    ) -> None:
        self._first = DecodeStream(
            tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens, **options
        )
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self._stream = self._first.fork()
        self.tokens = []
        self._given: list[str] = []
        self._new: list[str] = []
        self.offset = 0

    def add_token(self, token: SupportsIndex) -> None:
        """Take one id, ``token``. Raises the errors of ``DecodeStream.step``."""
        self._new.append(self._stream.step(token))
        self.tokens.append(token.__index__())

    def finalize(self) -> None:
        """End the text: add the withheld text to it."""
        if not self._stream.finished:
            self._new.append(self._stream.flush())

    @property
    def text(self) -> str:
        """The text so far."""
        # Join the parts once: a caller may ask after each token.
        self._given, self._new = ["".join(self._given)], ["".join(self._new)]
        return self._given[0] + self._new[0]

    @property
    def last_segment(self) -> str:
        """The text that was added since the last read of this property."""
        segment = "".join(self._new)
        self._new = []
        self._given.append(segment)
        self.offset += len(segment)
        return segment

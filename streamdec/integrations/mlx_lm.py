"""mlx-lm: its streaming detokenizer, by its own names.

In: token ids, one by one. Out: the text so far, and what of it is new. ``TokenizerWrapper``, and
with it ``stream_generate`` and the server, take the class instead of their own.

Stops need none of this: ``iter_chunks`` reads ``generate_step`` itself, and closes it.

Tried with mlx-lm 0.32.2, mlx 0.32.4 on Linux. Neither is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, Unpack

from streamdec.core.decode_stream import DecodeStream
from streamdec.integrations._tokenizers import decoder_for
from streamdec.streams.options import NO_PROMPT, DecodingOptions

__all__ = ["StreamingDetokenizer"]


class StreamingDetokenizer:
    r"""What ``mlx_lm.tokenizer_utils.StreamingDetokenizer`` promises, and the text is exact.

    After ``finalize`` the text is ``tokenizer.decode(tokens)`` (where runs of byte tokens are
    broken, with ``byte_fallback="exact"``); before, all of it that no later token can change. A
    copy shares nothing with its original once it was reset, which is how ``TokenizerWrapper`` makes
    one for each request.

    Args:
        tokenizer: one of transformers, or of streamdec.
        prompt_token_ids: ids that came before. Without them the text begins as that of a full
            decode does: of tokenizers that put a space before the first word it is left out.
        options: those of decoding. Special tokens are shown, as mlx-lm shows them.

    Raises what DecodeStream raises; TypeError for what is no tokenizer.

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

    def __init__(
        self,
        tokenizer: Any,
        prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
        **options: Unpack[DecodingOptions],
    ) -> None:
        self._decoder = decoder_for(tokenizer)
        self._prompt = tuple(prompt_token_ids)
        self._options: DecodingOptions = {"skip_special_tokens": False, **options}
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self._stream = DecodeStream(self._decoder, self._prompt, **self._options)
        self.tokens = []
        self._given: list[str] = []
        self._new: list[str] = []
        self._offset = 0

    def add_token(self, token: SupportsIndex) -> None:
        """Takes one id, ``token``. Raises what ``DecodeStream.step`` raises.

        So after ``finalize`` a FinishedError; ``reset`` begins again.
        """
        self._new.append(self._stream.step(token))
        self.tokens.append(token.__index__())

    def finalize(self) -> None:
        """The end: what was withheld is part of the text."""
        if not self._stream.finished:
            self._new.append(self._stream.flush())

    @property
    def text(self) -> str:
        """The text so far."""
        # Each is joined once: a caller that asks after each token copies the text, not its parts.
        self._given, self._new = ["".join(self._given)], ["".join(self._new)]
        return self._given[0] + self._new[0]

    @property
    def last_segment(self) -> str:
        """The text that is new since this was last asked for."""
        segment = "".join(self._new)
        self._new = []
        self._given.append(segment)
        self._offset += len(segment)
        return segment

    @property
    def offset(self) -> int:
        """How many code points ``last_segment`` has given."""
        return self._offset

"""The encoder of the library fastokens (extra ``fast``).

In: the text of a ``tokenizer.json``. Out: an encoder that gives ids as bytes, four for each,
little-endian. It calls the batch function, which releases the GIL; ``encode`` of fastokens holds it
for texts under 32 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamdec.encoding import Special
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._extras import library

GUARDED = "\u180e"
"""White space in only one of the two regex engines; fastokens never encodes a text with it.

It is the only code point on which their white-space classes differ. Whether the ids differ depends
on the text around it, so probes cannot show that they agree. No probe contains it.
"""


class Stopped(Exception):  # noqa: N818 (not an error)
    """The program is ending, so nothing will be encoded."""


class FastEncoder:
    """The encoder of fastokens, without truncation and padding.

    Raises :class:`MissingExtraError` without the library, and :class:`TokenizerLoadError` if the
    library does not support this ``tokenizer.json``. The file need not be wrong.
    """

    def __init__(self, text: str) -> None:
        made = library("fastokens", "fast", "faster encoding needs").Tokenizer
        try:
            tokenizer = guarded(made.from_json_str, text)
            guarded(tokenizer.no_truncation)
            guarded(tokenizer.no_padding)
        except TokenizerLibraryError as error:
            raise TokenizerLoadError(f"fastokens cannot load it: {error.__cause__}") from error
        self._encode: Callable[[list[str], bool, bool], tuple[bytes, bytes]] = (
            tokenizer.encode_batch_flat
        )

    def ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> list[bytes]:
        """Return the ids of each text as bytes: four for each id, little-endian.

        ``special`` is ``"text"`` or ``"parse"``, as for ``encode``.
        """
        data, ends = guarded(self._encode, list(texts), add_special_tokens, special == "text")
        if len(texts) == 1:
            return [data]
        places = memoryview(ends).cast("Q").tolist()
        return [data[4 * places[i] : 4 * places[i + 1]] for i in range(len(texts))]

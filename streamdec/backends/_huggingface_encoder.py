"""The added tokens and the encoding side of a HuggingFaceTokenizer.

In: texts. Out: ids of the library ``tokenizers``, never truncated and never padded, and the offsets
of each token. Other code may share the library's tokenizer and change its settings. Texts are then
encoded with a copy that has the plain settings.

No table of the library says which tokens ``decode`` skips, so it decodes with and without skipping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from tokenizers import AddedToken, Tokenizer

from streamdec.encoding import Encoding, Special
from streamdec.errors import EncodeError, TokenizerLibraryError
from streamdec.folders.folder_tokens import keep_skipped
from streamdec.locks import cached_property
from streamdec.tokenizers._base import BaseTokenizer, Span, byte_spans
from streamdec.tokenizers._common import guarded

UNFAITHFUL = "the library cannot copy this tokenizer: the copy has other added tokens"
_UNKNOWN = "\U0010fffe \U000e0fff \u0378"
"""Unassigned code points."""
_ENCODING_PARTS = ("normalizer", "pre_tokenizer", "post_processor")


class HuggingFaceEncoder(BaseTokenizer):
    """The added tokens and the encoding methods of a tokenizer of ``tokenizers``."""

    _tokenizer: Tokenizer

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

    def _special_names(self) -> list[str]:
        return [self._added_tokens[i].content for i in sorted(self._special_ids)]

    # --- skipped tokens ---------------------------------------------------------------------------

    @cached_property
    def _skipped(self) -> dict[int, bool]:
        """The answers of ``is_skipped``, by token id."""
        return {}

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
        return [i for i in sorted(self._added_tokens) if self.is_skipped(i)]

    def _ask_if_skipped(self, token_id: int) -> bool:
        """Return whether ``token_id`` is skipped, by decoding with and without skipping.

        It stands between two copies of an ordinary token: a CTC pad has no text, but separates
        equal tokens, and Metaspace removes the first space.
        """
        around = self._neighbour
        ids = [*around, token_id, *around]
        with suppress(TokenizerLibraryError):
            shown = self._decode(ids, False)
            if shown != self._decode(ids, True):
                return True
            if shown != self._decode([*around, *around], False):
                return False
        # It never has text, so the answer does not matter.
        return token_id in self._special_ids

    @cached_property
    def _neighbour(self) -> list[int]:
        """An ordinary token with text; empty if none is found."""
        names = ((i, self.id_to_token(i)) for i in range(1000) if i not in self._added_tokens)
        known = (i for i, name in names if name and name not in self._added_texts)
        return [*islice(known, 1)]

    # --- ids --------------------------------------------------------------------------------------

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        """Return the ids of each text, never truncated and never padded."""
        how: Special = "text" if special == "text" else "parse"
        if special != "parse":
            bare = self._batch_ids(texts, how, add_special_tokens=False)
            for text, ids in zip(texts, bare, strict=True):
                self._refuse(text, Encoding(ids), special)
            if not add_special_tokens:
                return bare
        return self._batch_ids(texts, how, add_special_tokens=add_special_tokens)

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        """Encode with the library's batch function, because its ``encode`` holds the GIL."""
        encode = self._encoder_for(special).encode_batch_fast
        results = guarded(encode, list(texts), add_special_tokens=add_special_tokens)
        return [result.ids for result in results]

    # --- special tokens in a text -----------------------------------------------------------------

    def _refuse(self, text: str, ids: Encoding, special: Special) -> None:
        """Raise EncodeError if ``text``, which has these ids, has special tokens.

        For ``"forbid"``, the ids must also differ from those of plain text, because the unknown
        token may be special and occur in plain text.
        """
        found = self._special_ids.intersection(ids)
        if not found:
            return
        # Such a token may be a word of the model, such as T5's <extra_id_0>. Texts that spell it
        # are then encoded to it in every mode.
        spelled = {i for i in found - self._unknown if (self.id_to_token(i) or "") in text}
        what = "special tokens that its model cannot encode as ordinary text"
        if special == "forbid":
            what = "special tokens, which are forbidden"
            [plain] = self._batch_ids([text], "text", add_special_tokens=False)
            if not spelled and ids != Encoding(plain):
                spelled = {*found}
        if spelled:
            shown = ", ".join(repr(self.id_to_token(i)) for i in sorted(spelled)[:3])
            raise EncodeError(f"the text has {what}: {shown}")

    @cached_property
    def _unknown(self) -> frozenset[int]:
        """The special tokens of which a character without a token is made (unk)."""
        [ids] = self._batch_ids([_UNKNOWN], "text", add_special_tokens=False)
        return self._special_ids.intersection(Encoding(ids))

    # --- offsets ----------------------------------------------------------------------------------

    def offsets_of(self, encoding: Encoding) -> list[Span]:
        """Return each token's start and end in the text of ``encoding``, in code points.

        They are the library's own; it encodes the text again. Raises
        :class:`~streamdec.errors.EncodeError` if the encoding has no text or the tokenizer was
        changed; :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
        """
        if encoding.text is None:
            raise EncodeError("an encoding without its text has no offsets")
        encode = self._encoder_for(encoding.special).encode_batch
        add = encoding.add_special_tokens
        result = guarded(encode, [encoding.text], add_special_tokens=add)[0]
        if tuple(result.ids) != encoding.ids:
            raise EncodeError("the text now has other ids: the tokenizer was changed")
        return list(result.offsets)

    def byte_offsets_of(self, encoding: Encoding) -> list[Span]:
        """Return each token's start and end in the UTF-8 of the text of ``encoding``.

        They are exact if the tokens' bytes are the text and the library trims no white space.
        Otherwise they are those of whole characters. Raises the errors of :meth:`offsets_of`.
        """
        spans = byte_spans(encoding.text or "", encoding.offsets)
        if encoding.add_special_tokens:
            return spans
        try:
            exact = super().byte_offsets_of(encoding)
        except EncodeError:
            return spans
        within = (a <= c and d <= b for (a, b), (c, d) in zip(spans, exact, strict=True))
        return exact if all(within) else spans

    # --- the library's tokenizer with other settings ----------------------------------------------

    def _encoder_for(self, special: Special) -> Tokenizer:
        """Return a tokenizer without truncation and padding.

        Settings are checked each time, because transformers changes those of a shared tokenizer.
        For special tokens as text, which is a setting of the whole tokenizer, it is a copy.
        """
        is_text, given = special == "text", self._tokenizer
        is_plain = given.truncation is None and given.padding is None
        if is_plain and not is_text and not given.encode_special_tokens:
            return given
        if is_text not in self._copies:
            copied = self._copy()
            copied.encode_special_tokens = is_text
            self._copies[is_text] = copied
        return self._copies[is_text]

    @cached_property
    def _copies(self) -> dict[bool, Tokenizer]:
        """The copies that encode special tokens as text, or not."""
        return {}

    def _copy(self) -> Tokenizer:
        """Return a copy without truncation and padding, in a few milliseconds.

        The parts are shared: a copy through JSON would block all threads as loading does.
        """
        tokens = [token for _, token in sorted(self._added_tokens.items())]
        # Adding all at once is fast, but the library may then assign other ids than one by one.
        for groups in ([tokens], [[token] for token in tokens]):
            copied = Tokenizer(self._tokenizer.model)
            for part in _ENCODING_PARTS:
                if (value := getattr(self._tokenizer, part)) is not None:
                    setattr(copied, part, value)
            for group in groups:
                copied.add_tokens(group)
            if _contents(copied.get_added_tokens_decoder()) == _contents(self._added_tokens):
                found = self._added_tokens.items()
                keep_skipped(copied, [t for i, t in found if not t.special and self.is_skipped(i)])
                return copied
        raise TokenizerLibraryError(f"{self.name}: {UNFAITHFUL}")


def _contents(added: dict[int, AddedToken]) -> dict[int, str]:
    return {i: token.content for i, token in added.items()}

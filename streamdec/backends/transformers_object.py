"""A tokenizer of transformers that is written in Python.

In: the object that ``AutoTokenizer`` made. Out: a :class:`~streamdec.protocols.Tokenizer` whose ids
and texts are those of the object's own ``encode`` and ``decode``. It has no rules, so its streams
take the windowed route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamdec.encoding import Special
from streamdec.errors import EncodeError, TokenizerLibraryError
from streamdec.folders.tokenizer_config import ROLES
from streamdec.locks import cached_property
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import checked_ids, fingerprint_of, guarded, refuse_special


def roles_of(given: Any) -> dict[str, str]:
    """Return the token of each role, such as ``eos_token``, of a tokenizer."""
    named: Mapping[str, Any] = given.special_tokens_map
    return {role: str(named[role]) for role in ROLES if named.get(role)}


class TransformersTokenizer(BaseTokenizer):
    """The tokenizer ``given`` of transformers, made from the files in ``folder``.

    Encoding has no offsets: raises :class:`~streamdec.errors.EncodeError`, except where the tokens
    spell the text. ``special="text"`` does not find special tokens in a text, but some classes of
    transformers find other added tokens. What ``given`` raises becomes a
    :class:`~streamdec.errors.TokenizerLibraryError`.
    """

    tokenizer_type = "transformers"

    def __init__(self, given: Any, folder: Path) -> None:
        self.name: str = str(folder)
        self._given = given
        found: Mapping[str, int] = guarded(given.get_vocab)
        added = {i: token.content for i, token in given.added_tokens_decoder.items()}
        self._names = dict(sorted(({i: name for name, i in found.items()} | added).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {type(self._given).__name__})"

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Iterable[int], skip_special_tokens: bool) -> str:
        """Decode as the object does; unknown ids have no text."""
        known = [i for i in checked_ids(token_ids) if self.piece(i) is not None]
        text: str = guarded(self._given.decode, known, skip_special_tokens=skip_special_tokens)
        return text

    @cached_property
    def _skipped_ids(self) -> frozenset[int]:
        return frozenset(self._given.all_special_ids).intersection(self._names)

    rules = None
    """A class may decode in any way."""

    def piece(self, token_id: int) -> str | None:
        if token_id in self._names:
            return self._names[token_id]
        try:  # M2M100 and others have tokens that are not in their vocabulary
            token = guarded(self._given.convert_ids_to_tokens, token_id)
        except TokenizerLibraryError:
            return None
        return token if isinstance(token, str) and token != self._given.unk_token else None

    @cached_property
    def fingerprint(self) -> str:
        kind = type(self._given).__name__
        return fingerprint_of(kind, self._names, sorted(self._skipped_ids))

    # --- encoding ---------------------------------------------------------------------------------

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        if special == "forbid":
            for text in texts:
                refuse_special(text, self._any_special)
        options = {
            "add_special_tokens": add_special_tokens,
            "split_special_tokens": special == "text",
            "return_attention_mask": False,  # which fails if the first id is None
        }
        found: list[list[int]] = [guarded(self._given.encode, text, **options) for text in texts]
        if any(None in ids for ids in found):
            what = "has no token for a part of the text, and gives it no unknown token"
            raise EncodeError(f"{self!r} {what}")
        return found

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        return "transformers", partial(self._given.encode, add_special_tokens=False)

    id_to_token = piece

    @property
    def _role_texts(self) -> Mapping[str, str]:
        # A class may name tokens that its vocabulary lacks, as that of Wav2Vec2 does.
        roles = roles_of(self._given)
        return {role: text for role, text in roles.items() if text in self._ids_by_name}

"""GGUF: a model file's vocabulary, decoded exactly, encoded with best effort.

In: a path. Out: a :class:`~streamdec.protocols.Tokenizer`. :mod:`streamdec.backends.gguf_metadata`
reads the file. The bytes of a token are those that llama.cpp prints (``token_to_piece`` in its
``src/llama-vocab.cpp``). Invalid UTF-8 is decoded as in tiktoken, each maximal part as one U+FFFD;
llama.cpp leaves that to its callers.

A GGUF file does not fully describe how a text is split. So encoding is *best effort*, with one
warning. sentencepiece encodes for models of the kind ``llama``; ``tokenizers`` encodes for
``bert``, and for ``gpt2`` if the split is known (:mod:`streamdec.backends.gguf_cutting`). Other
kinds, such as ``t5``, ``rwkv`` and ``gemma4``, only decode.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from streamdec.backends.gguf_cutting import CUTTING, ESCAPED, ONLY_DECODED
from streamdec.backends.gguf_metadata import numbers_of, read_metadata, strings_of
from streamdec.encoding import Special, SpecialTokens
from streamdec.errors import (
    EncodeError,
    TokenizerLibraryError,
    TokenizerLoadError,
    warn,
)
from streamdec.folders.sentencepiece_proto import model_proto
from streamdec.locks import cached_property
from streamdec.protocols import ByteLevel, RawBytes, TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import (
    any_of,
    bytes_of,
    checked_ids,
    fingerprint_of,
    guarded,
    packed,
    refuse_special,
    sample_of,
)
from streamdec.tokenizers._instrumented import instrumented_decode

__all__ = ["GGUFTokenizer"]

_KINDS = ("llama", "gpt2", "bert", "t5", "rwkv", "gemma4")
_UNDEFINED = 0
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_SPACE = "\u2581"
_BYTE_LEVEL = TextRules(ByteLevel())
_ESCAPED = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_NAMED_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_CONTROLS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_ROLES = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",  # the spelling of the format
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}


class GGUFTokenizer(BaseTokenizer):
    """The tokenizer in a GGUF file; ``source`` is its path.

    Weights are not read. :attr:`encodes` says whether texts can be encoded. The encoder is built
    for the first text. With a large vocabulary that takes half a second, and blocks other threads.
    ``skip_special_tokens`` skips control tokens and the unknown token, as llama.cpp does with
    ``special=false``.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason. Encoding
    raises :class:`~streamdec.errors.EncodeError` if :attr:`encodes` is not ``"best effort"``, and
    :class:`~streamdec.errors.MissingExtraError` for a file of the kind ``llama`` without
    sentencepiece. It warns once (:class:`~streamdec.StreamdecWarning`).

    >>> from streamdec.tokenizers import GGUFTokenizer
    >>> tokenizer = GGUFTokenizer("path/to/model.gguf")
    >>> tokenizer.encodes, tokenizer.decode([1, 263, 264])
    ('best effort', 'hello ')
    """

    tokenizer_type = "gguf"

    inline_chars: int = 512
    _is_warned = False

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = Path(os.fsdecode(source))
        found = read_metadata(path, lambda key: key.startswith("tokenizer.ggml."))
        self.name: str = str(path)
        try:
            self._take({key.rpartition("ggml.")[2]: value for key, value in found.items()})
        except (ValueError, TypeError) as error:
            raise TokenizerLoadError(f"{str(path)!r}: {error}") from error

    def _take(self, data: dict[str, Any]) -> None:
        self._kind = _one_of(data.get("model"))
        self._tokens = strings_of(data, "tokens")
        if not self._tokens:
            raise ValueError("the GGUF file has no tokens (tokenizer.ggml.tokens)")
        types = data.get("token_type") or [_NORMAL] * len(self._tokens)
        if not isinstance(types, list) or not all(type(kind) is int for kind in types):
            raise ValueError("tokenizer.ggml.token_type is not a list of integers")
        if len(types) != len(self._tokens):
            raise ValueError(f"{len(types)} token types, but {len(self._tokens)} tokens")
        if strange := set(types) - {_UNDEFINED, *range(_NORMAL, _BYTE + 1)}:
            raise ValueError(f"a token has the unknown type {min(strange)}")
        self._types: list[int] = types
        self._scores = numbers_of(data, "scores")
        self._merges = strings_of(data, "merges")
        self._pre = str(data.get("pre", "default"))
        if self._kind == "gpt2" and self._pre in ESCAPED:
            self._kind = "gemma4"
        if self._kind == "gpt2" and self._pre not in {*CUTTING, *ONLY_DECODED}:
            what = "a byte-level vocabulary is assumed, which may be wrong"
            warn(f"{self.name!r}: {what}: llama.cpp has no pre-tokenizer {self._pre!r:.80}")
        self._strips = bool(data.get("add_space_prefix", self._kind in ("llama", "bert", "t5")))
        # The defaults of llama.cpp.
        is_begun = self._kind in ("llama", "bert") or (
            self._pre in CUTTING and CUTTING[self._pre].adds_bos and self._kind == "gpt2"
        )
        usual = {"bos": is_begun, "eos": self._kind == "t5", "sep": self._kind == "bert"}
        self._adds = {
            role: bool(data.get(f"add_{role}_token", adds)) for role, adds in usual.items()
        }
        found = {role: data.get(f"{name}_token_id") for role, name in _ROLES.items()}
        self._roles: dict[str, int] = {
            role: i for role, i in found.items() if type(i) is int and 0 <= i < len(self._tokens)
        }
        # Invalid byte tokens are found here, not in the middle of a stream.
        self._bytes = {i: _byte(self._tokens[i]) for i, kind in enumerate(types) if kind == _BYTE}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._kind})"

    # --- decoding ---------------------------------------------------------------------------------

    @instrumented_decode
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        pieces = [
            self.piece(token_id) or b""
            for token_id in checked_ids(token_ids)
            if not (skip_special_tokens and self.is_skipped(token_id))
        ]
        text = b"".join(pieces).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._strips else text

    @property
    def rules(self) -> TextRules:
        return TextRules(RawBytes(), (" ", 1) if self._strips else ("", 0))

    def piece(self, token_id: int) -> bytes | None:
        if not 0 <= token_id < len(self._tokens):
            return None
        text, kind = self._tokens[token_id], self._types[token_id]
        if kind == _UNUSED:
            return b""
        if kind == _BYTE:
            return self._bytes[token_id]
        if kind not in (_NORMAL, _UNDEFINED):
            return text.encode()
        if self._kind == "gpt2":
            return bytes_of(_BYTE_LEVEL, text)
        return _unescaped(text) if self._kind == "rwkv" else text.replace(_SPACE, " ").encode()

    def token_bytes(self, token_id: int) -> bytes | None:
        return self.piece(token_id)

    def is_skipped(self, token_id: int) -> bool:
        return 0 <= token_id < len(self._types) and self._types[token_id] in (_UNKNOWN, _CONTROL)

    @cached_property
    def _special(self) -> list[int]:
        return [i for i in range(len(self._types)) if self.is_skipped(i)]

    def _special_texts(self) -> Iterable[tuple[str, int]]:
        for token_id in self._special:
            yield (self.piece(token_id) or b"").decode(errors="surrogateescape"), token_id

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self.rules, self._kind, packed(self._tokens), bytes(self._types))

    def sample_ids(self) -> list[int]:
        return sample_of(self._special, self._byte_ids(), self.vocab_size)

    def _byte_ids(self) -> Iterator[int]:
        single = (i for i in range(self.vocab_size) if len(self.piece(i) or b"") == 1)
        return (i for _, i in zip(range(512), single, strict=False))

    # --- encoding ---------------------------------------------------------------------------------

    @cached_property
    def encodes(self) -> str:
        """``"best effort"``, or ``"no: "`` and the reason."""
        if self._kind == "llama" and len(self._scores) == len(self._tokens):
            return "best effort"
        if self._kind == "bert" and "unk_token" in self._roles:
            return "best effort"
        if self._kind == "gpt2" and self._merges and self._pre in CUTTING:
            return "best effort"
        how = f"of the kind {self._kind}, split as {self._pre!r:.80}"
        return f"no: this file does not say how a text is split ({how})"

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        if self.encodes != "best effort":
            reason = self.encodes.removeprefix("no: ")
            raise EncodeError(f"{self.name!r} can decode but not encode: {reason}")
        if not self._is_warned:
            self._is_warned = True
            told = (
                "a GGUF file does not fully describe how a text is split; encoding is best effort"
            )
            warn(f"{self.name!r}: {told}")
        return super()._all_ids(texts, special, add_special_tokens=add_special_tokens)

    def _ids(self, text: str, special: Special) -> Sequence[int]:
        if self._kind == "llama":
            found: Sequence[int] = self._sentencepiece._ids(text, special)
            return found
        if special == "forbid":
            refuse_special(text, self._any_special)
        encoder = self._of_plain_text if special == "text" else self._of_special_tokens
        result = guarded(encoder.encode_batch_fast, [text], add_special_tokens=False)[0]
        if special != "parse" and (words := self._control.intersection(result.ids)):
            name = self._tokens[min(words)]
            raise EncodeError(
                f"the text has the special token {name!r}, which the model cannot encode as "
                "ordinary text; pass special='parse'"
            )
        return result.ids

    @cached_property
    def _any_special(self) -> re.Pattern[str] | None:
        return any_of(self._names)

    def _encoding_identity(self) -> bytes:
        table = (self._kind, self._tokens, self._types, self._scores, self._merges)
        return repr((table, self._pre, self._strips, self._roles, self._adds)).encode()

    @property
    def _added(self) -> tuple[Sequence[int], Sequence[int]]:  # type: ignore[override]
        first = self._roles.get("cls_token" if self._kind == "bert" else "bos_token")
        before = [first] if self._adds["bos"] and first is not None else []
        after = [
            token_id
            for role in ("sep", "eos")
            if self._adds[role] and (token_id := self._roles.get(f"{role}_token")) is not None
        ]
        return before, after[:1]

    @cached_property
    def _sentencepiece(self) -> Any:
        from streamdec.backends.sentencepiece import SentencePieceTokenizer

        # Padding may have the type of the unknown token, of which a model has one.
        first = next((i for i, kind in enumerate(self._types) if kind == _UNKNOWN), -1)
        unknown = self._roles.get("unk_token", first)
        kinds = (
            _CONTROL if kind == _UNKNOWN and i != unknown else kind or _NORMAL
            for i, kind in enumerate(self._types)
        )
        pieces = zip(self._tokens, self._scores, kinds, strict=True)
        try:
            return SentencePieceTokenizer.from_content(
                model_proto(pieces, adds_prefix=self._strips), self.name
            )
        except TokenizerLoadError as error:
            raise EncodeError(f"{error}. This tokenizer can decode, but not encode") from error

    @cached_property
    def _control(self) -> frozenset[int]:
        """The special tokens whose ids only come from texts that spell them."""
        return frozenset(self._special) - {self._roles.get("unk_token", -1)}

    @cached_property
    def _names(self) -> list[str]:
        """The non-empty names of special tokens."""
        return [name for i in self._special if (name := self._tokens[i])]

    @cached_property
    def _of_special_tokens(self) -> Tokenizer:
        """A tokenizer with the parts of ``_of_plain_text`` and the special tokens."""
        plain = self._of_plain_text
        tokenizer = Tokenizer(plain.model)
        if plain.normalizer is not None:
            tokenizer.normalizer = plain.normalizer
        tokenizer.pre_tokenizer = plain.pre_tokenizer
        tokenizer.add_tokens(self._user_defined)
        tokenizer.add_special_tokens(self._names)
        return tokenizer

    @cached_property
    def _of_plain_text(self) -> Tokenizer:
        tokenizer = self._word_piece() if self._kind == "bert" else self._bpe()
        tokenizer.add_tokens(self._user_defined)
        return tokenizer

    @property
    def _user_defined(self) -> list[str]:
        return [self._tokens[i] for i, kind in enumerate(self._types) if kind == _USER_DEFINED]

    def _bpe(self) -> Tokenizer:
        merges = [(left, right) for left, _, right in (m.partition(" ") for m in self._merges)]
        cutting = CUTTING[self._pre]
        try:
            model = guarded(models.BPE, self._by_name, merges, ignore_merges=cutting.ignores_merges)
        except TokenizerLibraryError as error:
            raise EncodeError(f"{self.name!r}: its merges are bad: {error.__cause__}") from error
        tokenizer = Tokenizer(model)
        if cutting.is_nfc:
            tokenizer.normalizer = normalizers.NFC()
        stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in cutting.patterns]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*stages, byte_level])
        return tokenizer

    def _word_piece(self) -> Tokenizer:
        """Return BERT's tokenizer.

        The file writes continuations without ``##``, and words with U+2581. Texts are lowercased
        and lose their accents unless a token has upper-case letters.
        """
        words = zip(self._tokens, self._types, strict=True)
        names = [text if kind != _NORMAL else _in_word_piece(text) for text, kind in words]
        vocabulary = {name: i for i, name in reversed([*enumerate(names)])}
        is_cased = any(
            kind == _NORMAL and text.startswith(_SPACE) and text != text.lower()
            for text, kind in zip(self._tokens, self._types, strict=True)
        )
        tokenizer = Tokenizer(
            models.WordPiece(vocabulary, unk_token=names[self._roles["unk_token"]])
        )
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not is_cased)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer

    # --- the vocabulary ---------------------------------------------------------------------------

    def id_to_token(self, token_id: int) -> str | None:
        return self._tokens[token_id] if 0 <= token_id < len(self._tokens) else None

    def token_to_id(self, token: str) -> int | None:
        return self._by_name.get(token)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {token: i for i, token in reversed([*enumerate(self._tokens)])}

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        roles = {role: self._tokens[token_id] for role, token_id in self._roles.items()}
        others = (self._tokens[i] for i in self._special if i not in self._roles.values())
        return SpecialTokens(**roles, additional_special_tokens=tuple(others))


def _one_of(kind: Any) -> str:
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise ValueError(f"unknown kind of GGUF tokenizer {kind!r:.80}; expected one of {known}")
    return str(kind)


def _in_word_piece(text: str) -> str:
    return text[1:] if text.startswith(_SPACE) else f"##{text}"


def _unescaped(text: str) -> bytes:
    r"""Return the bytes of a token of the kind ``rwkv``.

    In such a token, ``\x`` and two hexadecimal digits are a byte.
    """
    return _ESCAPED.sub(_unescape, text.encode())


def _unescape(found: re.Match[bytes]) -> bytes:
    digits, letter = found.groups()
    return bytes.fromhex(digits.decode()) if digits else _CONTROLS.get(letter, letter)


def _byte(name: str) -> bytes:
    found = _NAMED_BYTE.fullmatch(name)
    if found is None:
        raise ValueError(f"a byte token must be spelled like <0xE4>, not {name!r:.40}")
    return bytes.fromhex(found[1])

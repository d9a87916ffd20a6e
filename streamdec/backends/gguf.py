"""GGUF: the vocabulary of a model file, decoded exactly, encoded after a trial.

In: a path. Out: a :class:`~streamdec.protocols.Tokenizer`. :mod:`streamdec.backends.gguf_metadata`
reads the file. The bytes of a token are those that llama.cpp prints (``token_to_piece`` in its
``src/llama-vocab.cpp``). Invalid UTF-8 is decoded as in tiktoken, each maximal part as one U+FFFD.
A first space is removed as by ``llama_detokenize``, and also after a skipped token.

A tokenizer of the library ``tokenizers`` is built from the file to encode: for ``llama`` from the
scores of its pieces, for ``bert``, and for ``gpt2`` if the way to split a text is known by its name
(:mod:`streamdec.backends.gguf_cutting`). It must pass a trial. Other kinds only decode. Special
tokens are found before that (:mod:`streamdec.backends.gguf_special`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from streamdec.backends._decoder_chain import byte_names
from streamdec.backends.gguf_cutting import CUTTING, ESCAPED, ONLY_DECODED, RAW
from streamdec.backends.gguf_metadata import numbers_of, read_metadata, strings_of, unescaped
from streamdec.backends.gguf_special import SpecialNames, ids_of
from streamdec.backends.gguf_types import UNDEFINED, types_of
from streamdec.encoding import Special
from streamdec.errors import EncodeError, TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.fastpath._probes import SAMPLE_TEXTS
from streamdec.folders.assembled import tokenizer_of_pieces
from streamdec.folders.sentencepiece_proto import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    ModelProto,
    Piece,
)
from streamdec.locks import cached_property
from streamdec.protocols import ByteLevel, RawBytes, TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import bytes_of, checked_ids, fingerprint_of, guarded

__all__ = ["GGUFTokenizer"]

_KINDS = ("llama", "gpt2", "bert", "t5", "rwkv", "gemma4")
_PREFIX = "tokenizer.ggml."
_MODEL = ("general.name", "general.architecture")
_SPACE = "\u2581"
_BYTE_LEVEL = TextRules(ByteLevel())
_NAMED_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_ROLES = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",  # the spelling of the format
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}
_USUAL = {
    "llama": {"bos_token": 1, "eos_token": 2, "unk_token": 0},
    "bert": {
        "bos_token": 101,
        "cls_token": 101,
        "unk_token": 100,
        "sep_token": 102,
        "pad_token": 0,
    },
    "gpt2": {"bos_token": 11, "eos_token": 11},
    "t5": {"eos_token": 1, "unk_token": 2, "pad_token": 0},
}
"""The roles of special tokens that llama.cpp assumes if the file does not say them."""
_PHANTOM = "\ufffd"
"""What begins a word of the kind ``bert``, in place of U+2581; no word has this character."""
_FLAGS = (
    *("add_space_prefix", "add_bos_token", "add_eos_token"),
    *("normalizer.lowercase", "normalizer.strip_accents"),
)
_TRIED = 64
"""The number of tokens whose texts are encoded in the trial."""


class GGUFTokenizer(BaseTokenizer):
    """The tokenizer in a GGUF file; ``source`` is its path.

    Weights are not read. ``skip_special_tokens`` skips control tokens and the unknown token, as
    llama.cpp does with ``special=false``. The encoder is built and tried for the first text: a
    sample of texts must come back from ``decode``. With a large vocabulary that takes a second or
    two, and blocks other threads. Texts are not normalized, as in llama.cpp.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason. Encoding
    raises :class:`~streamdec.errors.EncodeError` if :attr:`encodes` is not ``"yes"``.

    >>> from streamdec.tokenizers import GGUFTokenizer
    >>> tokenizer = GGUFTokenizer("path/to/model.gguf")
    >>> tokenizer.encodes, tokenizer.decode([1, 263, 264])
    ('yes', 'hello ')
    """

    tokenizer_type = "gguf"

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = Path(os.fsdecode(source))
        found = read_metadata(path, lambda key: key.startswith(_PREFIX) or key in _MODEL)
        self.name: str = str(path)
        self._model = [str(found.pop(key, "")) for key in _MODEL]
        try:
            self._take({key.removeprefix(_PREFIX): value for key, value in found.items()})
        except (ValueError, TypeError) as error:
            raise TokenizerLoadError(f"{str(path)!r}: {error}") from error

    def _take(self, data: dict[str, Any]) -> None:
        self._kind = str(data.get("model"))
        if self._kind not in _KINDS:
            known = ", ".join(_KINDS)
            what = f"unknown kind of GGUF tokenizer {data.get('model')!r:.80}"
            raise ValueError(f"{what}; expected one of {known}")
        # llama.cpp names a token without text like this.
        texts = enumerate(strings_of(data, "tokens"))
        self._names = {i: text or f"[EMPTY_{i}]" for i, text in texts}
        self._types, doubts = types_of(data, self._ids_by_name, len(self._names))
        for doubt in doubts:
            warn(f"{self.name!r}: {doubt}")
        self._scores = numbers_of(data, "scores")
        self._merges = strings_of(data, "merges")
        self._pre = str(data.get("pre", "default"))
        if self._kind == "gpt2":
            self._check_pre()
        for key in _FLAGS:
            if type(data.get(key, False)) is not bool:
                raise ValueError(f"tokenizer.ggml.{key} is {data[key]!r:.40}, not a bool")
        self._strips = data.get("add_space_prefix", self._kind == "llama")
        # The defaults of llama.cpp.
        is_begun = self._kind in ("llama", "bert") or (
            self._kind == "gpt2" and self._pre in CUTTING and CUTTING[self._pre].adds_bos
        )
        usual = {"bos": is_begun, "eos": self._kind == "t5"}
        self._adds = {role: data.get(f"add_{role}_token", adds) for role, adds in usual.items()}
        self._roles: dict[str, int] = {}
        for role, name in _ROLES.items():
            self._take_role(role, name, data.get(f"{name}_token_id"))
        self._warn_of_letters()
        self._lowercases = data.get("normalizer.lowercase", True)
        self._strips_accents = data.get("normalizer.strip_accents", self._lowercases)
        # Invalid tokens are found here, not in the middle of a stream.
        for text in self._names.values() if self._kind == "rwkv" else ():
            unescaped(text)
        self._bytes = {i: _byte(self._names[i]) for i in self._of_type(BYTE)}

    def _warn_of_letters(self) -> None:
        """Warn if a byte-level token has letters that are no bytes."""
        letters = frozenset(byte_names(_BYTE_LEVEL))
        texts = [self._names[i] for i in self._of_type(NORMAL)]
        if self._kind == "gpt2" and not letters.issuperset("".join(texts)):
            text = next(text for text in texts if not letters.issuperset(text))
            what = (
                f"its token {text!r:.40} is not byte-level, and llama.cpp prints it with [UNK_BYTE]"
            )
            warn(f"{self.name!r}: {what}")

    def _take_role(self, role: str, name: str, given: Any) -> None:
        """Set the token of ``role``, which the file calls ``name``: ``given``, or the usual id.

        An ordinary token with the usual id is not taken. llama.cpp takes it: a warning says so if
        it matters, for eos, and for bos if it is added.
        """
        if type(given) is int and given in self._names:
            self._roles[role] = given
            return
        if given is not None:
            warn(f"{self.name!r}: the id of the {role} is {given!r:.40}, which is not a token")
        usual = _USUAL.get(self._kind, {}).get(role, -1)
        if self.is_skipped(usual):
            self._roles[role] = usual
        elif given is None and usual in self._names and (name == "eos" or self._adds.get(name)):
            what = f"it has no {name}_token_id, and llama.cpp takes the token {usual} for it"
            warn(f"{self.name!r}: {what}: {self._names[usual]!r:.40}")

    def _of_type(self, *kinds: int) -> list[int]:
        """Return the ids of tokens that have one of these types."""
        return [i for i, kind in enumerate(self._types) if kind in kinds]

    def _check_pre(self) -> None:
        """Check the name of the pre-tokenizer, which also says how tokens are spelled."""
        if self._pre in RAW:
            raise ValueError(
                f"its tokens are neither byte-level nor escaped: split as {self._pre!r}"
            )
        if self._pre in ESCAPED:
            self._kind = "gemma4"
        elif self._pre not in {*CUTTING, *ONLY_DECODED}:
            what = "its tokens are assumed to be byte-level, and may decode as other text"
            warn(f"{self.name!r}: unknown pre-tokenizer {self._pre!r:.80}: {what}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._kind})"

    def __getstate__(self) -> dict[str, Any]:
        """All but the encoder: the library's JSON keeps only one of two texts with the same id."""
        return {name: value for name, value in self.__dict__.items() if name != "_encoder"}

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Iterable[int], skip_special_tokens: bool) -> str:
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
        text = self._names.get(token_id)
        if text is None:
            return None
        kind = self._types[token_id]
        if self._kind == "rwkv":
            return unescaped(text)
        if kind in (UNUSED, UNDEFINED):
            return b""
        if kind == BYTE:
            return self._bytes[token_id]
        if kind != NORMAL:
            return text.encode()
        is_byte_level = self._kind == "gpt2"
        return bytes_of(_BYTE_LEVEL, text) if is_byte_level else text.replace(_SPACE, " ").encode()

    @cached_property
    def _skipped_ids(self) -> frozenset[int]:
        return frozenset(self._of_type(UNKNOWN, CONTROL))

    @cached_property
    def fingerprint(self) -> str:
        names = [*self._names.values()]
        return fingerprint_of(self.rules, self._kind, names, bytes(self._types))

    def _byte_ids(self) -> Iterator[int]:
        return islice((i for i in range(self.vocab_size) if len(self.piece(i) or b"") == 1), 512)

    # --- encoding ---------------------------------------------------------------------------------

    @property
    def encodes(self) -> str:
        """``"yes"``, or ``"no: "`` and the reason.

        Builds the encoder, as the first text does.
        """
        encoder = self._encoder
        return f"no: {encoder}" if isinstance(encoder, str) else "yes"

    @cached_property
    def _encoder(self) -> Tokenizer | str:
        """What encodes text without special tokens; the reason if nothing does."""
        split = f"(of the kind {self._kind}, split as {self._pre!r:.80})"
        is_known = self._kind != "gpt2" or self._pre in CUTTING
        if self._kind not in ("llama", "bert", "gpt2") or not is_known:
            return f"this file does not say how a text is split {split}"
        try:
            made = self._built()
            fault = self._fault_of(made)
            overlap = self._special.overlap()
        except (TokenizerLibraryError, ValueError) as error:
            fault = str(error.__cause__ or error)
        if fault:
            return f"{fault} {split}"
        scores = dict(zip(self._names.values(), self._scores, strict=False))
        odd = _odd_scores(scores) if self._kind == "llama" else ""
        for why in filter(None, (odd, overlap)):
            warn(f"{self.name!r}: the ids of some texts may not be those of llama.cpp: {why}")
        return made

    def _fault_of(self, encoder: Tokenizer) -> str:
        """Return the fault that a trial of ``encoder`` finds; empty if it finds none."""
        twice = next((i for i, t in self._names.items() if self._ids_by_name[t] != i), None)
        if twice is not None:
            return f"the token {self._names[twice]!r:.40} has two ids"
        if self._kind == "bert":  # changes texts, and has no token for others
            return ""
        spread = range(0, self.vocab_size, max(self.vocab_size // _TRIED, 1))
        words = (self._decode([i], False) for i in spread if self._types[i] == NORMAL)
        for text in (*SAMPLE_TEXTS, *words):
            expected = text.replace(_SPACE, " ") if self._kind == "llama" else text
            if self._decode(ids_of([text], encoder), False) != expected:
                return f"the text {text!r:.40} is encoded as tokens of other text"
        return ""

    @cached_property
    def _special(self) -> SpecialNames:
        names = {self._names[i]: i for i in self._of_type(UNKNOWN, CONTROL, USER_DEFINED)}
        model, architecture = self._model
        return SpecialNames(names, model, architecture, self._pre)

    def _ids(self, text: str, special: Special) -> list[int]:
        left_out = () if special == "parse" else self._skipped_ids
        ids = ids_of(self._special.parts(text, left_out), self._working_encoder())
        if special != "parse":
            unknown = self._roles.get("unk_token")
            if found := sorted(self._skipped_ids.intersection(ids) - {unknown}):
                shown = ", ".join(repr(self._names[i]) for i in found[:3])
                what = "special tokens that its model cannot encode as ordinary text"
                raise EncodeError(f"the text has {what}: {shown}")
        return ids

    def _working_encoder(self) -> Tokenizer:
        if isinstance(self._encoder, str):
            raise EncodeError(f"{self.name!r} can decode but not encode: {self._encoder}")
        return self._encoder

    def _built(self) -> Tokenizer:
        build = {"llama": self._pieces, "bert": self._word_piece, "gpt2": self._bpe}
        return build[self._kind]()

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        self._working_encoder()  # raises its errors
        library, names = self._built(), (self._names[i] for i in self._of_type(USER_DEFINED))
        # The library, too, is to find these before it splits a text.
        library.add_tokens([AddedToken(name, normalized=False) for name in names])
        return "tokenizers", lambda text: library.encode(text, add_special_tokens=False).ids

    @property
    def _added(self) -> tuple[Sequence[int], Sequence[int]]:
        bos, eos = (self._roles.get(f"{role}_token") for role in ("bos", "eos"))
        if self._kind == "bert":  # always has both; old files have bos as cls only
            first = self._roles.get("cls_token") if bos is None else bos
            last = self._roles.get("sep_token")
        else:
            first = bos if self._adds["bos"] else None
            last = eos if self._adds["eos"] else None
        return [] if first is None else [first], [] if last is None else [last]

    def _pieces(self) -> Tokenizer:
        if len(self._scores) != len(self._names):
            raise ValueError(f"it has {len(self._scores)} scores for {len(self._names)} tokens")
        # llama.cpp merges tokens of each type.
        rows = zip(self._names.values(), self._scores, strict=True)
        unknown = self._roles.get("unk_token")
        proto = ModelProto(
            [Piece(text, score, NORMAL) for text, score in rows],
            model_type=BPE,
            byte_fallback=True,
            unk_piece="" if unknown is None else self._names[unknown],
            adds_prefix=self._strips,
            removes_spaces=False,
        )
        return tokenizer_of_pieces(proto, [*self._names.values()], is_legacy=True)

    def _bpe(self) -> Tokenizer:
        if not self._merges:
            raise ValueError("it has no merges")
        parts = (merge.partition(" ") for merge in dict.fromkeys(self._merges))
        merges = [(left, right) for left, _, right in parts]
        cutting = CUTTING[self._pre]
        model = guarded(models.BPE, self._ids_by_name, merges, ignore_merges=cutting.ignores_merges)
        tokenizer = Tokenizer(model)
        stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in cutting.patterns]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*stages, byte_level])
        return tokenizer

    def _word_piece(self) -> Tokenizer:
        """Return BERT's tokenizer.

        The file writes words with U+2581, and continuations as they are. So llama.cpp puts U+2581
        before each word of a text, and takes the longest token again and again.
        """
        if "unk_token" not in self._roles:
            raise ValueError("it has no unknown token")
        vocabulary = dict(self._ids_by_name)
        for i, name in self._names.items():
            if name.startswith(_SPACE):
                vocabulary[_PHANTOM + name[1:]] = i
        model = models.WordPiece(
            vocabulary,
            unk_token=self._names[self._roles["unk_token"]],
            max_input_chars_per_word=2**31,
            continuing_subword_prefix="",
        )
        tokenizer = Tokenizer(model)
        stages: list[normalizers.Normalizer] = [
            normalizers.Replace(Regex("[\x0b\x0c\x85]"), " "),  # as white space
            normalizers.Replace(Regex(r"\p{Cf}"), ""),
            normalizers.BertNormalizer(lowercase=False, strip_accents=False),
        ]
        if self._strips_accents:
            # Of a decomposed character, llama.cpp keeps only the first, also of a Korean syllable.
            stages += [
                normalizers.Replace(Regex(f"[{chr(first)}-{chr(first + 587)}]"), chr(letter))
                for letter, first in enumerate(range(0xAC00, 0xD7A4, 588), 0x1100)
            ]
            stages += [normalizers.NFD(), normalizers.Replace(Regex(r"\p{M}"), "")]
        if self._lowercases:
            stages += [normalizers.Replace("\u0130", "i"), normalizers.Lowercase()]
        tokenizer.normalizer = normalizers.Sequence(stages)
        begins = pre_tokenizers.Metaspace(_PHANTOM, prepend_scheme="always", split=False)
        # Not a BertPreTokenizer, which has the punctuation of Unicode 8.
        marks = pre_tokenizers.Split(Regex(r"[\p{P}$+<=>^`|~]"), "isolated")
        words = pre_tokenizers.WhitespaceSplit()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, marks, begins])
        return tokenizer

    # --- the vocabulary ---------------------------------------------------------------------------

    @property
    def _role_texts(self) -> Mapping[str, str]:
        return {role: self._names[token_id] for role, token_id in self._roles.items()}


def _odd_scores(scores: Mapping[str, float]) -> str:
    """Return why merges by rank may differ from those of llama.cpp; empty if they do not.

    llama.cpp takes the leftmost of two pairs with the same score, which matters unless they are
    runs of one letter. It also merges letters that are no tokens.
    """
    of_score: dict[float, str] = {}
    for text, score in scores.items():
        if isnan(score):
            return f"the score of its token {text!r:.40} is not a number"
        for place in range(1, len(text)):
            odd = [half for half in (text[:place], text[place:]) if half not in scores]
            if any(len(half) > 1 for half in odd):
                continue
            if odd:
                return f"its token {text!r:.40} has a letter without a token"
            other = of_score.setdefault(score, text)
            if other != text and set(other) != set(text):
                return f"its tokens {other!r:.40} and {text!r:.40} have the same score"
    return ""


def _byte(name: str) -> bytes:
    found = _NAMED_BYTE.fullmatch(name)
    if found is None:
        raise ValueError(f"a byte token must be spelled like <0xE4>, not {name!r:.40}")
    return bytes.fromhex(found[1])

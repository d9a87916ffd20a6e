"""Tokenizer classes of transformers 5 that make a tokenizer from a vocabulary.

In: the library's tokenizer of a ``tokenizer.json``. Out: a tokenizer with the same vocabulary and
merges, whose other parts are those of the class. Such a class (Llama, Qwen2, GPT-2, Gemma, CLIP …)
ignores the normalizer, the pre-tokenizer, the decoder and the added tokens of the file; a few
options of ``tokenizer_config.json`` change what it builds.

``transformers_pipelines.json`` has the parts. ``scripts/make_transformers_pipelines.py`` reads them
from the classes, and ``scripts/make_class_goldens.py`` records what the classes do with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, processors

from streamdec.tokenizers._common import guarded

if TYPE_CHECKING:
    from streamdec.folders.sentencepiece_proto import Piece

_PARTS = ("normalizer", "pre_tokenizer", "decoder")
_MODEL = (
    *("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges"),
    *("continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word"),
)
_CHARSMAP = "{charsmap}"
_BYTE_FALLBACK = re.compile(rb'"byte_fallback"\s*:\s*true')
_UNK_ID = re.compile(rb'"unk_id"\s*:\s*([0-9]+)')


@cache
def _data() -> Mapping[str, Any]:
    file = Path(__file__).with_name("transformers_pipelines.json")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return data


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The tokenizer that one class builds."""

    name: str
    """The class."""
    data: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """The kind of the model, such as ``"BPE"``."""
        kind: str = self.data["pipelines"][0][1]["model"]["type"]
        return kind

    def takes_pieces(self, pieces: Iterable[Piece], roles: Mapping[str, str]) -> bool:
        """Whether it takes the pieces of a SentencePiece model as they are."""
        if self.data["converts"] or self.data["adds_again"]:
            return False
        if not self.data["pipelines"][0][1]["model"].get("end_of_word_suffix"):
            return True
        return roles.get("unk_token") in {piece.text for piece in pieces}

    def build(
        self, tokenizer: Tokenizer, content: bytes, config: Mapping[str, Any], roles: dict[str, str]
    ) -> tuple[Tokenizer, tuple[str, ...]] | str:
        """Return the tokenizer of the class, and which parts of the file it replaces.

        ``content`` is the file and ``roles`` are the role tokens. The result shares its vocabulary
        with ``tokenizer``, which must not be used afterwards. Returns the reason as a str if the
        class cannot be imitated for this file.
        """
        parts = self._parts(tokenizer, config, roles)
        if isinstance(parts, str):
            return parts
        model, kind = tokenizer.model, parts["model"]["type"]
        if type(model).__name__ != kind:
            return f"it builds a {kind} from the vocabulary of a {type(model).__name__}"
        if kind == "Unigram" and (reason := _other_unigram(model, content, roles)):
            return reason
        changed = [] if not _set_model(model, parts["model"]) else ["model"]
        built = Tokenizer(model)
        empty = {
            **dict.fromkeys(("truncation", "padding", "post_processor")),
            "version": "1.0",
            "added_tokens": [],
            "model": {"type": "BPE", "vocab": {}, "merges": []},
            **{part: parts[part] for part in _PARTS},
        }
        made = guarded(Tokenizer.from_str, json.dumps(empty))
        for part in _PARTS:
            new, old = getattr(made, part), getattr(tokenizer, part)
            if _state(new) != _state(old):
                changed.append(part)
            if new is not None:
                setattr(built, part, new)
        if tokenizer.post_processor is not None:
            built.post_processor = tokenizer.post_processor
        return built, tuple(changed)

    def _parts(
        self, tokenizer: Tokenizer, config: Mapping[str, Any], roles: Mapping[str, str]
    ) -> Any:
        options = self.data["options"]
        asked = [config.get(name, default) for name, default in options.items()]
        found = next((parts for values, parts in self.data["pipelines"] if values == asked), None)
        if found is None:
            values = dict(zip(options, asked, strict=True))
            return f"unknown values of its options: {values!r:.100}"
        text = json.dumps(found, ensure_ascii=False)
        if _CHARSMAP in text:
            charsmap = _charsmap_of(tokenizer.normalizer)
            if charsmap is None:
                return "the tokenizer.json has no precompiled charsmap"
            text = text.replace(_CHARSMAP, charsmap)
        return json.loads(_with_roles(text, roles))


def pipeline_of(name: str) -> Pipeline | None:
    """Return the pipeline of the class ``name``; None if it cannot be imitated."""
    data = _data().get(name)
    return Pipeline(name, data) if isinstance(data, dict) else None


def set_post_processor(
    tokenizer: Tokenizer,
    pipeline: Pipeline | None,
    config: Mapping[str, Any],
    roles: Mapping[str, str],
    *,
    has_file: bool,
) -> bool:
    """Set what ``add_special_tokens`` adds, as transformers does after adding tokens.

    Without ``pipeline``, the rules are those of the class that uses all of ``tokenizer.json``. The
    options ``add_bos_token`` and ``add_eos_token`` of ``config`` only count without such a file
    (``has_file``). Returns whether it changed ``tokenizer``.
    """
    data: Mapping[str, Any] = {} if pipeline is None else pipeline.data
    before = _state(tokenizer.post_processor)
    is_asked = not has_file and ("add_bos_token" in config or "add_eos_token" in config)
    if is_asked and data.get("adds_as_asked", True):
        adds_bos, adds_eos = data.get("adds", (False, False))
        bos = roles.get("bos_token") if config.get("add_bos_token", adds_bos) else None
        eos = roles.get("eos_token") if config.get("add_eos_token", adds_eos) else None
        tokenizer.post_processor = _template(tokenizer, bos, eos)
    elif tokenizer.post_processor is None or not data.get("keeps_post_processor", True):
        own = data.get("post_processor")
        adds_nothing = own is None or [*map(list, own.get("single", []))] == [["Sequence"]]
        if not adds_nothing or tokenizer.post_processor is not None:
            text = _with_roles(json.dumps(own, ensure_ascii=False), roles)
            found = None if own is None else _made(_with_ids(json.loads(text), tokenizer))
            if found is not None:
                tokenizer.post_processor = found
    return _state(tokenizer.post_processor) != before


def _template(tokenizer: Tokenizer, bos: str | None, eos: str | None) -> Any:
    """Return the post-processor that adds ``bos`` before and ``eos`` after each text.

    A token that has no id is not added.
    """
    bos, eos = (
        text if text and tokenizer.token_to_id(text) is not None else None for text in (bos, eos)
    )
    single = " ".join(part for part in (bos and f"{bos}:0", "$A:0", eos and f"{eos}:0") if part)
    pair = " ".join(part for part in (bos and f"{bos}:1", "$B:1", eos and f"{eos}:1") if part)
    texts = dict.fromkeys(text for text in (bos, eos) if text)
    tokens = [(text, tokenizer.token_to_id(text)) for text in texts]
    return guarded(
        processors.TemplateProcessing,
        single=single,
        pair=f"{single} {pair}",
        special_tokens=tokens,
    )


def _made(data: Any) -> Any:
    """Return the post-processor that ``data`` describes; None if a token has no id."""
    if data is None:
        return None
    empty = {
        **dict.fromkeys(("truncation", "padding", *_PARTS)),
        "version": "1.0",
        "added_tokens": [],
        "post_processor": data,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    return guarded(Tokenizer.from_str, json.dumps(empty)).post_processor


def _with_ids(data: Any, tokenizer: Tokenizer) -> Any:
    """Return a post-processor's JSON with its tokens' ids; None if a token has no id."""
    for key in ("sep", "cls"):
        if key in data:
            token_id = tokenizer.token_to_id(data[key][0])
            if token_id is None:
                return None
            data[key][1] = token_id
    for text, token in data.get("special_tokens", {}).items():
        token_id = tokenizer.token_to_id(text)
        if token_id is None:
            return None
        token["ids"] = [token_id]
    return data


def _with_roles(text: str, roles: Mapping[str, str]) -> str:
    """Return JSON ``text`` in which placeholders are role tokens."""
    for role, token in roles.items():
        text = text.replace(f"{{{role}}}", json.dumps(token, ensure_ascii=False)[1:-1])
    return text


def _set_model(model: Any, wanted: Mapping[str, Any]) -> bool:
    """Set the attributes of the class on ``model``; return whether one changed."""
    is_new = False
    for name in _MODEL:
        if name in wanted and (getattr(model, name, None) or None) != (wanted[name] or None):
            setattr(model, name, wanted[name])
            is_new = True
    return is_new


def _charsmap_of(normalizer: Any) -> str | None:
    data = json.loads(_state(normalizer) or "null") or {}
    for part in data.get("normalizers", [data]):
        if part.get("type") == "Precompiled":
            found: str = part["precompiled_charsmap"]
            return found
    return None


def _other_unigram(model: Any, content: bytes, roles: Mapping[str, str]) -> str:
    """Return how a Unigram model differs from the one that the class would build."""
    if _BYTE_FALLBACK.search(content):
        return "it builds a Unigram model without byte fallback"
    unk_id = _UNK_ID.search(content)
    text = model.id_to_token(int(unk_id[1])) if unk_id else None
    if text != roles.get("unk_token"):
        return f"the unknown token of its model is not {text!r:.40}"
    return ""


def _state(part: Any) -> str | None:
    if part is None:
        return None
    state = guarded(part.__getstate__)
    return state.decode() if isinstance(state, bytes) else str(state)

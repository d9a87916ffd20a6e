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
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.tokenizers._common import guarded, state_of

Pipeline = Mapping[str, Any]
"""The tokenizer that one class builds, as the data file has it."""
_PARTS = ("normalizer", "pre_tokenizer", "decoder")
_MODEL = (
    *("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges"),
    *("continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word"),
)
_CHARSMAP = "{charsmap}"
_ROLE = re.compile(r"\{(\w+_token)\}")
"""The placeholder of a role token."""
_BYTE_FALLBACK = re.compile(rb'"byte_fallback"\s*:\s*true')
_SCORE_OF_0 = rb"\[\s*%s\s*,\s*0\.0\s*\]"
_UNK_ID = re.compile(rb'"unk_id"\s*:\s*([0-9]+)')


@cache
def _data() -> Mapping[str, Any]:
    file = Path(__file__).with_name("transformers_pipelines.json")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return data


def pipeline_of(name: str) -> Pipeline | None:
    """Return the pipeline of the class ``name``; None if it cannot be imitated."""
    return _data().get(name)


def build(
    pipeline: Pipeline,
    tokenizer: Tokenizer,
    content: bytes,
    config: Mapping[str, Any],
    roles: dict[str, str],
) -> Tokenizer:
    """Return the tokenizer of the class.

    ``content`` is the file and ``roles`` are the role tokens. The result shares its vocabulary
    with ``tokenizer``, which must not be used afterwards. Raises NotFollowedError if the class
    cannot be imitated for this file.
    """
    parts = _parts(pipeline, tokenizer, config, roles)
    model, kind = tokenizer.model, parts["model"]["type"]
    if type(model).__name__ != kind:
        what = f"it builds a {kind} from the vocabulary of a {type(model).__name__}"
        raise NotFollowedError(what)
    if kind == "Unigram":
        _check_unigram(model, content, parts["model"]["unk_id"], roles)
    _set_model(model, parts["model"])
    built = Tokenizer(model)
    made = _empty(**{part: parts[part] for part in _PARTS})
    for part in _PARTS:
        if (new := getattr(made, part)) is not None:
            setattr(built, part, new)
    if tokenizer.post_processor is not None:
        built.post_processor = tokenizer.post_processor
    return built


def _parts(
    pipeline: Pipeline, tokenizer: Tokenizer, config: Mapping[str, Any], roles: Mapping[str, str]
) -> Any:
    """Return the parts of the tokenizer as JSON data, for the options of this folder."""
    options, others = pipeline["options"], pipeline["others"]
    for name, default in others.items():
        value = roles.get(name, config.get(name, default))
        if value not in (default, None):
            raise NotFollowedError(f"its {name} is {value!r:.40}")
    asked = [config.get(name, default) for name, default in options.items()]
    found = next((parts for values, parts in pipeline["pipelines"] if values == asked), None)
    if found is None:
        values = dict(zip(options, asked, strict=True))
        raise NotFollowedError(f"unknown values of its options: {values!r:.100}")
    text = json.dumps(found, ensure_ascii=False)
    if _CHARSMAP in text:
        charsmap = _charsmap_of(tokenizer.normalizer)
        if charsmap is None:
            raise NotFollowedError("the tokenizer.json has no precompiled charsmap")
        text = text.replace(_CHARSMAP, charsmap)
    return json.loads(_with_roles(text, roles))


def set_post_processor(
    tokenizer: Tokenizer, pipeline: Pipeline, roles: Mapping[str, str], *, is_built: bool
) -> None:
    """Set what the class adds around a text, after added tokens.

    ``is_built``: whether the class builds the tokenizer; otherwise it takes that of the file.
    """
    before, own = tokenizer.post_processor, pipeline["post_processor"]
    is_kept = pipeline["keeps_post_processor"] and (before is not None or not is_built)
    if own is None or is_kept:
        return
    text = _with_roles(json.dumps(own, ensure_ascii=False), roles)
    data = _with_ids(json.loads(text), tokenizer)
    if data is not None:
        tokenizer.post_processor = _empty(post_processor=data).post_processor


def _empty(**parts: Any) -> Tokenizer:
    """Return a tokenizer without tokens that has these parts, which are JSON data."""
    data = {
        **dict.fromkeys(("truncation", "padding", "post_processor", *_PARTS)),
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "BPE", "vocab": {}, "merges": []},
        **parts,
    }
    return guarded(Tokenizer.from_str, json.dumps(data))


def _with_ids(data: Any, tokenizer: Tokenizer) -> Any:
    """Return a post-processor's JSON with ids for texts; None if a text has no id."""
    for key in ("sep", "cls"):
        if key in data:
            data[key][1] = tokenizer.token_to_id(data[key][1])
            if data[key][1] is None:
                return None
    for token in data.get("special_tokens", {}).values():
        token["ids"] = [*map(tokenizer.token_to_id, token["ids"])]
        if None in token["ids"]:
            return None
    return data


def _with_roles(text: str, roles: Mapping[str, str]) -> str:
    """Return JSON ``text`` in which placeholders are role tokens.

    Raises NotFollowedError if the files say that there is no such token.
    """

    def token(found: re.Match[str]) -> str:
        if found[1] not in roles:
            raise NotFollowedError(f"its {found[1]} is null")
        return json.dumps(roles[found[1]], ensure_ascii=False)[1:-1]

    return _ROLE.sub(token, text)


def _set_model(model: Any, wanted: Mapping[str, Any]) -> None:
    """Set the attributes of the class on ``model``."""
    for name in _MODEL:
        if name in wanted and (getattr(model, name, None) or None) != (wanted[name] or None):
            setattr(model, name, wanted[name])


def _charsmap_of(normalizer: Any) -> str | None:
    data = state_of(normalizer) or {}
    for part in data.get("normalizers", [data]):
        if part.get("type") == "Precompiled":
            found: str = part["precompiled_charsmap"]
            return found
    return None


def _check_unigram(
    model: Any, content: bytes, wanted: int | None, roles: Mapping[str, str]
) -> None:
    """Raise NotFollowedError if the class would build another Unigram model.

    ``wanted`` is its unknown id; None if it finds its unknown token, with a score of 0.
    """
    if _BYTE_FALLBACK.search(content):
        raise NotFollowedError("it builds a Unigram model without byte fallback")
    found = _UNK_ID.search(content)
    unk_id = int(found[1]) if found else None
    if wanted is None:
        text = roles.get("unk_token", "")
        if not re.search(_SCORE_OF_0 % re.escape(json.dumps(text).encode()), content):
            raise NotFollowedError(f"its unknown token {text!r:.40} has no score of 0")
        wanted = model.token_to_id(text)
    if unk_id != wanted:
        raise NotFollowedError(f"its unknown id is {wanted}, and that of the file is {unk_id}")

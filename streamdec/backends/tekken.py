"""Tekken: Mistral's ``tekken.json``, run by the library tiktoken.

In: a file or its content. Out: a :class:`~streamdec.tokenizers.TiktokenTokenizer`. The file has the
regex and the tokens in base64, with ranks from 0. Some of its tokens are not used. The first ids
are special tokens, so rank n has the id n + ``default_num_special_tokens``. A special token without
a name is called ``<SPECIAL_n>``. Up to version 7 a file may omit the names; then twenty fixed names
apply.

The source is ``mistral_common/tokens/tokenizers/tekken.py`` of mistral-common 1.13.1. That library
decodes the tokens before and after a special token separately. Here a character may continue after
a skipped special token.
"""

from __future__ import annotations

import hashlib
import json
import os
from binascii import a2b_base64
from typing import Any

from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers._common import MAX_ID
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.folder_files import content_of

__all__ = ["TekkenTokenizer"]

MAX_SPECIAL = 2**12
"""Special tokens. Known files have 1,000; a file only gives their number."""
_UNNAMED = "v7"
"""The last version whose files may leave special tokens unnamed."""
_VERSIONS = ("v1", "v2", "v3", "v7", "v11", "v13", "v15")
_FIXED = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)


class TekkenTokenizer(TiktokenTokenizer):
    """A tokenizer of a ``tekken.json``, Mistral's format.

    ``source`` is its path, or its content.

    With ``add_special_tokens`` a text begins with ``<s>``. Raises
    :class:`~streamdec.TokenizerLoadError`, which names the path and the reason, and
    :class:`~streamdec.errors.MissingExtraError` without tiktoken.

    >>> from streamdec.tokenizers import TekkenTokenizer
    >>> tokenizer = TekkenTokenizer("path/to/tekken.json")
    >>> tokenizer.encode("hello[INST]", add_special_tokens=True).tokens
    ('<s>', 'hello', '[INST]')
    """

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        content, name = content_of(source, "Tekken file")
        try:
            ranks, spec = _parse(json.loads(content.decode("utf-8-sig")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            message = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise TokenizerLoadError(f"{name!r}: not a Tekken file: {message:.300}") from error
        self._take_ranks(ranks, spec, repr(name))
        self.name: str = name
        self.sha256: str | None = hashlib.sha256(content).hexdigest()


def _parse(data: Any) -> tuple[dict[bytes, int], EncodingSpec]:
    config = data["config"]
    num_special = _count(config, "default_num_special_tokens")
    if num_special > MAX_SPECIAL:
        raise ValueError(f"{num_special} special tokens, and at most {MAX_SPECIAL} are allowed")
    size = _count(config, "default_vocab_size") - num_special
    vocab, pattern = data["vocab"], config["pattern"]
    if not isinstance(vocab, list) or not isinstance(pattern, str):
        raise TypeError("vocab must be a list, and pattern a string")
    if not 0 < size <= len(vocab):
        raise ValueError(
            f"default_vocab_size asks for {size} tokens besides the special ones, and vocab has "
            f"{len(vocab)}"
        )
    ranks = {_token(vocab[rank], rank): rank + num_special for rank in range(size)}
    if len(ranks) < size:
        raise ValueError("two tokens have the same bytes")
    names = _special(data.get("special_tokens"), num_special, config.get("version"))
    return ranks, EncodingSpec(
        name="tekken",
        pattern=pattern,
        special_tokens=names,
        bos_token="<s>" if "<s>" in names else None,
        eos_token="</s>" if "</s>" in names else None,
        pad_token="<pad>" if "<pad>" in names else None,
        begins_with=("<s>",) if "<s>" in names else (),
    )


def _count(config: Any, key: str) -> int:
    value = config[key]
    if type(value) is not int or not 0 <= value <= MAX_ID + 1:
        raise ValueError(f"{key} must be an integer from 0 to {MAX_ID + 1}, not {value!r:.40}")
    return value


def _token(entry: Any, rank: int) -> bytes:
    if not isinstance(entry, dict):
        raise TypeError(f"entry {rank} is {entry!r:.40}, not an object")
    if entry["rank"] != rank:
        raise ValueError(f"entry {rank} has rank {entry['rank']!r:.40}")
    try:
        return a2b_base64(entry["token_bytes"], strict_mode=True)
    except ValueError as error:
        raise ValueError(f"entry {rank}: {entry['token_bytes']!r:.40} is not base64") from error


def _special(listed: Any, count: int, version: Any) -> dict[str, int]:
    """Return the ids of all special tokens by name."""
    if version not in _VERSIONS:
        raise ValueError(f"unknown version {version!r:.40}; expected one of {', '.join(_VERSIONS)}")
    if listed is None and _VERSIONS.index(version) > _VERSIONS.index(_UNNAMED):
        raise ValueError(f"no special tokens; version {version} must have them")
    by_id = dict(enumerate(_FIXED)) if listed is None else _named(listed)
    if (last := max(by_id, default=-1)) >= count:
        raise ValueError(f"a special token has the id {last}; such ids must be below {count}")
    names = {by_id.get(i, f"<SPECIAL_{i}>"): i for i in range(count)}
    if len(names) < count:
        raise ValueError("two special tokens have the same name")
    return names


def _named(listed: Any) -> dict[int, str]:
    by_id: dict[int, str] = {}
    for token in listed:
        if not isinstance(token, dict):
            raise TypeError(f"the special token {token!r:.40} is not an object")
        token_id, name = token["rank"], token["token_str"]
        # mistral-common finds the text by the place in the list, and the id by the rank.
        if type(token_id) is not int or token_id != len(by_id) or not name:
            why = f"the special token {name!r:.40} has the rank {token_id!r:.40}, not {len(by_id)}"
            raise ValueError(why)
        by_id[token_id] = str(name)
    return by_id

"""Find the special tokens in a text as llama.cpp does, by their names in a GGUF file.

In: the names of the special tokens, and a text. Out: the parts between them, and their ids. As in
``tokenizer_st_partition`` of llama.cpp (``src/llama-vocab.cpp``), the longest name divides the text
first, even if another one begins before it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tokenizers import Tokenizer

from streamdec.tokenizers._common import guarded

_WHITE = " \t\n\v\f\r"
"""White space that some special tokens remove beside them."""
_LONGEST = 256
"""Characters of a special token; the longest known has 50."""


class SpecialNames:
    """The special tokens of a file, and what they remove beside them.

    ``model``, ``architecture`` and ``pre`` are the names by which llama.cpp knows tokens that
    remove the white space beside them: no file says it.
    """

    def __init__(self, names: Mapping[str, int], model: str, architecture: str, pre: str) -> None:
        by_size = sorted(names.items(), key=lambda item: len(item[0].encode()), reverse=True)
        self._names = dict(by_size)
        self._before: Container[str] = ()
        self._after: Container[str] = ()
        is_bert = any(name in architecture for name in ("nomic-bert-moe", "jina-bert-v3"))
        if is_bert or any(name in pre for name in ("jina-v2-de", "jina-v2-es", "jina-v2-code")):
            self._before = ("<mask>",)
        elif "phi-3" in model.lower() or "phi3" in model.lower():
            self._after = names.keys() - {"<unk>", "<s>", "<|endoftext|>"}
        elif "modern-bert" in model.lower():
            self._before = ("[MASK]",)

    def parts(self, text: str, left_out: Container[int]) -> list[str | int]:
        """Divide ``text`` at the names of all tokens but those that are ``left_out``."""
        parts: list[str | int] = [text]
        for name, token_id in self._names.items():
            if name in text and token_id not in left_out:
                divided = (
                    self._divided(part, name) if isinstance(part, str) else [part] for part in parts
                )
                parts = [part for each in divided for part in each]
        return parts

    def _divided(self, text: str, name: str) -> list[str | int]:
        texts = text.split(name)
        for place in range(1, len(texts)):
            if name in self._before:
                texts[place - 1] = texts[place - 1].rstrip(_WHITE)
            if name in self._after:
                texts[place] = texts[place].lstrip(_WHITE)
        parts: list[str | int] = []
        for part in texts:
            parts += [self._names[name], part]
        return parts[1:]

    def overlap(self) -> str:
        """Return two names for which the order of llama.cpp is not defined; empty without.

        They are equally long, and one begins inside the other. Raises ValueError for a name of more
        than 256 characters: the work is quadratic.
        """
        longest = max(map(len, self._names), default=0)
        if longest > _LONGEST:
            raise ValueError(f"a special token of {longest} characters; the most is {_LONGEST}")
        groups: dict[int, list[str]] = {}
        for name in self._names:
            groups.setdefault(len(name.encode()), []).append(name)
        for group in groups.values():
            last = {name[:end]: name for name in group for end in range(1, len(name))}
            first = {name[:end]: name for name in group[::-1] for end in range(1, len(name))}
            for name in group:
                ends = [name[start:] for start in range(1, len(name))]
                begun = {begins.get(end, name) for end in ends for begins in (first, last)}
                for other in sorted(begun - {name}):
                    pair = (f"{each!r:.40} ({self._names[each]})" for each in (name, other))
                    return f"its special tokens {' and '.join(pair)} overlap, and are equally long"
        return ""


def ids_of(parts: Sequence[str | int], encoder: Tokenizer) -> list[int]:
    """Return the ids of a text that is divided at its special tokens."""
    texts = [part for part in parts if isinstance(part, str)]
    found = iter(guarded(encoder.encode_batch_fast, texts, add_special_tokens=False))
    each = ([part] if isinstance(part, int) else next(found).ids for part in parts)
    return [token_id for ids in each for token_id in ids]

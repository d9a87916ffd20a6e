"""Questions about tokens: which are added, what id a marker has, which stop id begins a turn.

In: the folder of a snapshot. Out: plain values. Files are read; nothing in them is run but the chat
template, which :func:`~streamdec.preflight.is_turn_marker_eos` renders in a child process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from streamdec.backends.added_vocabulary import Token
from streamdec.preflight.engines import parse_engine
from streamdec.preflight.questions_turns import openers
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.tokens import Entry, Tokens
from streamdec.preflight.view import View

__all__ = [
    "DiscoveredToken",
    "TurnMarker",
    "discover_added_tokens",
    "is_turn_marker_eos",
    "resolve_marker_to_id",
]

_CONFIG = "tokenizer_config.json"
_JSON = "tokenizer.json"
_LEGACY = "added_tokens.json"
_ARTICLES = {"assistant": "an"}
_ENGINES = ("vllm", "sglang", "transformers")


@dataclass(frozen=True, slots=True)
class DiscoveredToken:
    """An added token as it is after loading.

    >>> from streamdec.preflight import discover_added_tokens
    >>> token = discover_added_tokens("path/to/model")[2]
    >>> token.content, token.sources, token.is_disputed
    ('<|im_end|>', ('tokenizer.json', 'eos_token'), False)
    """

    id: int
    """Its token id."""
    content: str
    """Its text."""
    special: bool
    """Its flag. One that is special in ``tokenizer.json`` alone is left out of texts as well."""
    single_word: bool
    """Whether it is found in a text only as a word of its own."""
    lstrip: bool
    """Whether white space before it is part of it."""
    rstrip: bool
    """Whether white space after it is."""
    normalized: bool
    """Whether it is looked for in the normalised text."""
    sources: tuple[str, ...]
    """The files that declare it, and the roles that name it, as ``eos_token``."""
    flags: Mapping[str, bool]
    """What each file says of ``special``: where they differ, the loaders differ."""

    @property
    def is_disputed(self) -> bool:
        """Whether one file has it special and another not."""
        return len(set(self.flags.values())) > 1


class TurnMarker(NamedTuple):
    """A stop id with which a turn begins.

    >>> from streamdec.preflight import TurnMarker
    >>> print(*TurnMarker(154827, "<|user|>", "before a user message, chat_template.jinja:64"))
    154827 <|user|> before a user message, chat_template.jinja:64
    """

    id: int
    """The token id."""
    content: str
    """Its text."""
    where: str
    """Whose turn it begins, and the line of the template in which it is written, if it is."""


def discover_added_tokens(
    path: str | os.PathLike[str], *, apply_tokenizer_config: bool = True
) -> dict[int, DiscoveredToken]:
    """Every added token of the snapshot in the folder ``path``, by its id.

    As transformers, vLLM and SGLang have them: ``tokenizer.json``, then ``added_tokens_decoder``
    over it, whose flags win and whose unknown texts are appended, then the roles and the extra
    tokens. With ``apply_tokenizer_config=False``, as loaders that read only ``tokenizer.json`` have
    them. Where that file is missing or its code is remote, what the other files declare.

    Raises :class:`~streamdec.PreflightError` for what is no folder.

    >>> from streamdec.preflight import discover_added_tokens
    >>> added = discover_added_tokens("path/to/model")
    >>> {i: (token.content, token.special) for i, token in added.items()}
    {0: ('<|endoftext|>', True), 1: ('<|im_start|>', True), 2: ('<|im_end|>', True)}
    """
    tokens = Tokens(Snapshot(Path(path)))
    bare = {} if tokens.bare is None else tokens.bare.added()
    found = tokens.added if apply_tokenizer_config else bare
    flags: dict[int, dict[str, bool]] = {}
    matching: dict[str, Token] = {}
    for file, entry in _declared(tokens):
        if file == _JSON:
            matching[entry.content] = entry.token
        if entry.id in found and found[entry.id][0] == entry.content:
            flags.setdefault(entry.id, {})[file] = entry.special
    if apply_tokenizer_config:
        matching |= {token.content: token for token in tokens.to_add()}
    roles: dict[str, list[str]] = {}
    for name, role in tokens.roles.items():
        roles.setdefault(role.text, []).append(name)
    made = {}
    for i, (text, special) in sorted(found.items()):
        how = matching.get(text, Token(text, special=special))
        sources = (
            *flags.get(i, ()),
            *((_LEGACY,) if _is_legacy(tokens, i, text) else ()),
            *(roles.get(text, ()) if apply_tokenizer_config else ()),
        )
        made[i] = DiscoveredToken(
            id=i,
            content=text,
            special=special,
            single_word=how.single_word,
            lstrip=how.lstrip,
            rstrip=how.rstrip,
            normalized=how.normalized,
            sources=sources,
            flags=flags.get(i, {}),
        )
    return made


def resolve_marker_to_id(path: str | os.PathLike[str], marker: str) -> list[int]:
    """The ids under which the snapshot in ``path`` has the token ``marker``, in ascending order.

    None: it is no token, and a template that writes it writes several. One: its id after loading.
    More than one: files declare it under different ids, or one file does so twice; which of them
    counts is what ``ADDED_TOKEN_ID_DRIFT`` and ``ADDED_TOKEN_DUPLICATE_CONTENT`` are about.

    Raises :class:`~streamdec.PreflightError` for what is no folder, TypeError for a marker that is
    no string.

    >>> from streamdec.preflight import resolve_marker_to_id
    >>> resolve_marker_to_id("path/to/model", "<|im_end|>")
    [2]
    >>> resolve_marker_to_id("path/to/model", "<|eot_id|>")
    []
    """
    if not isinstance(marker, str):
        raise TypeError(f"a marker is a string, not {type(marker).__name__}")
    tokens = Tokens(Snapshot(Path(path)))
    found = {entry.id for _, entry in _declared(tokens) if entry.content == marker}
    if not tokens.has_decoder and marker in tokens.legacy:
        found.add(tokens.legacy[marker])
    loaded = tokens.resolve(marker).id if marker else None
    if loaded is not None:
        found.add(loaded)
    return sorted(found)


def is_turn_marker_eos(path: str | os.PathLike[str]) -> list[TurnMarker]:
    """The stop ids with which the template of ``path`` begins a turn, and whose turn that is.

    The ids are those on which vLLM, SGLang or transformers stop. A marker that closes the
    assistant's turn is none of them, although the next turn follows it. What is found is no mistake
    where the template closes no turn: such a model ends its turn by beginning the next (GLM), and
    without these ids its output runs on.

    The template is rendered, so an empty list may also say that there is none, or that it fails.
    Raises :class:`~streamdec.PreflightError` for what is no folder,
    :class:`~streamdec.MissingExtraError` without jinja2.

    >>> from pathlib import Path
    >>> from shutil import copytree
    >>> from tempfile import TemporaryDirectory
    >>> from streamdec.preflight import is_turn_marker_eos
    >>> with TemporaryDirectory() as folder:
    ...     model = Path(copytree("path/to/model", folder, dirs_exist_ok=True))
    ...     _ = (model / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    ...     [(marker.id, marker.content) for marker in is_turn_marker_eos(model)]
    [(1, '<|im_start|>')]
    """
    view = View(Snapshot(Path(path)), tuple(parse_engine(name) for name in _ENGINES))
    template = view.templates.default
    if template is None:
        return []
    stops = {i: view.tokens.text_of(i) for i in sorted(view.stop_ids)}
    known = {text: i for i, (text, _) in view.tokens.added.items() if text}
    known |= {text: i for i, text in stops.items() if text}
    roles = {name: role.text for name, role in view.tokens.roles.items()}
    begun = openers(template.text, roles, known)
    found = []
    for i, text in stops.items():
        if text in begun:
            where = f"before {_listed(begun[text])}"
            line = _line_of(template.text, text)
            where += f", {template.file}{template.pointer and '#' + template.pointer}"
            found.append(TurnMarker(i, text, f"{where}:{line}" if line else where))
    return found


def _declared(tokens: Tokens) -> Iterator[tuple[str, Entry]]:
    yield from ((_JSON, entry) for entry in tokens.own)
    yield from ((_CONFIG, entry) for entry in tokens.declared)


def _is_legacy(tokens: Tokens, token_id: int, text: str) -> bool:
    return not tokens.has_decoder and tokens.legacy.get(text) == token_id


def _listed(roles: Iterable[str]) -> str:
    return " and ".join(f"{_ARTICLES.get(role, 'a')} {role} message" for role in roles)


def _line_of(text: str, marker: str) -> int | None:
    """The line in which a template writes a marker; None if it puts it together."""
    before, found, _ = text.partition(marker)
    return before.count("\n") + 1 if found else None

"""Questions about a snapshot's files: disagreements, quantisation and commit.

Only :func:`~streamdec.preflight.verify_commit_reachable` uses the network (extra ``hub``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from streamdec.errors import MissingExtraError, TokenizerLoadError
from streamdec.preflight.findings.quantization import quantization_places, quantizations
from streamdec.preflight.inspection import inspect
from streamdec.preflight.preflight_report import RULES, Finding
from streamdec.preflight.snapshot import open_snapshot
from streamdec.tokenizers._extras import library


def cross_ref_files(path: str | os.PathLike[str]) -> list[Finding]:
    """Return where files of the snapshot in ``path`` disagree, the most severe first.

    Each finding names the files and the value in each. Its action says which file counts.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder.

    >>> from streamdec.preflight import cross_ref_files
    >>> cross_ref_files("path/to/model")
    []
    """
    found = inspect(path, render=False).findings
    return [each for each in found if RULES[each.code].compares_files]


class QuantizationEntry(NamedTuple):
    """A ``quantization_config`` and where it is.

    >>> from streamdec.preflight import QuantizationEntry, find_nested_quantization_config
    >>> config = {"text_config": {"quantization_config": {"quant_method": "fp8"}}}
    >>> [entry] = find_nested_quantization_config(config)
    >>> entry
    QuantizationEntry(path='text_config.quantization_config', value={'quant_method': 'fp8'})
    """

    path: str
    """Its dotted path, items of lists by their index: ``text_config.quantization_config``."""
    value: dict[str, Any]
    """Its content, as JSON."""


def find_nested_quantization_config(
    path: str | os.PathLike[str] | Mapping[str, Any],
) -> list[QuantizationEntry]:
    """Return every ``quantization_config`` of a ``config.json`` that is not empty.

    ``path`` is the folder of a snapshot, or the JSON of the file. The outer ones come first.

    Raises :class:`~streamdec.TokenizerLoadError` for a path that is not a folder.

    >>> from streamdec.preflight import find_nested_quantization_config
    >>> config = {"llm_config": {"layers": [{"quantization_config": {"bits": 4}}]}}
    >>> [entry.path for entry in find_nested_quantization_config(config)]
    ['llm_config.layers.0.quantization_config']
    """
    config = path if isinstance(path, Mapping) else open_snapshot(path).object("config.json") or {}
    found = quantizations(config)
    return [QuantizationEntry(path, value) for path, value in found if isinstance(value, dict)]


def summarize_quant_config(config: str | os.PathLike[str] | Mapping[str, Any]) -> str:
    """Return a quantisation in one line.

    ``config`` is a ``quantization_config`` as a dict, or the folder of a snapshot. For a folder,
    all declarations are listed by precedence, each with its file and path; ``"none"`` if there is
    none. ``kv_cache_scheme=None``: the checkpoint has no scales for the KV cache.

    Raises :class:`~streamdec.TokenizerLoadError` for a path that is not a folder.

    >>> from streamdec.preflight import summarize_quant_config
    >>> summarize_quant_config({"quant_method": "gptq", "bits": 4, "group_size": 128})
    'gptq bits=4 group_size=128'
    >>> summarize_quant_config("path/to/model")
    'none'
    """
    if isinstance(config, Mapping):
        return " ".join(_summary(config))
    lines = (
        f"{file}{path and '#' + path}: {summarize_quant_config(value)}"
        for file, path, value in quantization_places(open_snapshot(config))
    )
    return "; ".join(lines) or "none"


def _summary(config: Mapping[str, Any]) -> Iterator[str]:
    method, algorithm = config.get("quant_method"), config.get("quant_algo")
    yield _word(method or ("modelopt" if algorithm else "no method"))
    if algorithm:
        yield f"quant_algo={_word(algorithm)}"
    groups = config.get("config_groups")  # of compressed-tensors
    group = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = group.get("weights") if isinstance(group, dict) else None
    weights = weights if isinstance(weights, dict) else {}
    keys = ("bits", "w_bit", "group_size", "desc_act", "activation_scheme", "format")
    said = {key: weights[key] for key in ("num_bits", "group_size") if key in weights}
    said |= {key: config[key] for key in keys if key in config and key not in weights}
    yield from (f"{key}={_word(value)}" for key, value in said.items())
    ignored = [config.get(key) for key in ("ignore", "modules_to_not_convert", "exclude_modules")]
    count = sum(len(names) for names in ignored if isinstance(names, list))
    if count:
        yield f"ignore_patterns={count}"
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        if key in config:
            value = config[key]
            yield f"{key}={'set' if isinstance(value, dict | list) else _word(value)}"


def _word(value: object) -> str:
    """Return a value on one line, shortened."""
    shown = value if isinstance(value, str) and value.isprintable() else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


MOST_REFS = 100
"""The most branches, tags and pull requests whose history is requested."""
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_SHA = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """The status of a commit.

    >>> from streamdec.preflight import verify_commit_reachable
    >>> status = verify_commit_reachable("org/model", "6ad52ee", offline=True)
    >>> status.code, status.reachable
    ('COMMIT_UNVERIFIED', None)
    """

    repo_id: str
    """The repository: ``org/model``."""
    commit: str
    """The commit in hexadecimal, with as many digits as were given."""
    revision: str
    """The branch or tag that should have it."""
    code: Literal["COMMIT_NOT_REACHABLE", "COMMIT_NOT_HEAD", "COMMIT_UNVERIFIED"] | None
    """The finding; None where the commit is the head of the revision."""
    reachable: bool | None
    """Whether the history of the revision has it; None if the hub was not asked."""
    head: str | None = None
    """The head of the revision; None if it is unknown."""
    held_by: tuple[str, ...] = ()
    """The refs whose history has it, among those requested: ``main``, ``refs/pr/3`` …"""
    note: str = ""
    """Why the hub did not answer, or what was not requested."""


def verify_commit_reachable(
    repo_id: str | os.PathLike[str],
    commit_sha: str | None = None,
    *,
    revision: str = "main",
    offline: bool = False,
) -> CommitStatus:
    """Check whether the history of a revision has a commit.

    Args:
        repo_id: ``org/model``; or the folder of a snapshot in the hub's cache, whose path contains
            the repository and the commit.
        commit_sha: 7 to 40 hexadecimal digits. Required unless ``repo_id`` is a snapshot folder.
        revision: The branch or tag that should have it.
        offline: Whether not to ask the hub. ``HF_HUB_OFFLINE=1`` has the same effect.

    Raises :class:`~streamdec.TokenizerLoadError` for a bad repository id, a bad commit, or a folder
    that is not in the cache. If the hub does not answer, or huggingface_hub is not installed, the
    code is ``COMMIT_UNVERIFIED``, ``reachable`` is None and the note says why.

    Cost: one request for the refs, and those for the histories of up to 100 of them.

    >>> from streamdec.preflight import verify_commit_reachable
    >>> status = verify_commit_reachable("org/model", "6ad52ee", offline=True)
    >>> status.code, status.note
    ('COMMIT_UNVERIFIED', 'offline: the hub was not asked')
    """
    repo, commit = _asked(os.fspath(repo_id), commit_sha)
    note = "offline: the hub was not asked"
    if not offline:
        try:
            api = library("huggingface_hub", "hub", "asking the hub for commits needs").HfApi()
            return _from_hub(api, repo, commit, revision)
        except MissingExtraError as error:
            note = str(error)
        # Of the network, the server and the library; they have no root in common.
        except Exception as error:  # noqa: BLE001
            why = " ".join(str(error).split())
            note = f"the hub did not answer: {type(error).__name__}: {why:.300}"
    return CommitStatus(repo, commit, revision, "COMMIT_UNVERIFIED", None, note=note)


def _asked(given: str, commit: str | None) -> tuple[str, str]:
    """Return the repository and the commit."""
    repo = given
    folder = Path(os.path.realpath(given))
    if folder.is_dir() and folder.parent.name == "snapshots":
        kept = folder.parent.parent.name
        if not kept.startswith("models--"):
            message = f"{given!r:.200} is not in a cache of the hub: expected a folder "
            raise TokenizerLoadError(f"{message}models--org--name, found {kept!r:.100}")
        repo, commit = kept.removeprefix("models--").replace("--", "/"), commit or folder.name
    elif commit is None:
        raise TokenizerLoadError(
            f"{given!r:.200} is not a folder of the hub's cache "
            "(models--org--name/snapshots/commit): pass commit_sha"
        )
    if not _ID.fullmatch(repo):
        raise TokenizerLoadError(f"{repo!r:.200} is not an id of the Hub, such as 'org/model'")
    if not _SHA.fullmatch(str(commit).lower()):
        message = f"{commit!r:.100} is not a commit; expected 7 to 40 hexadecimal digits"
        raise TokenizerLoadError(message)
    return repo, commit.lower()


def _from_hub(api: Any, repo: str, commit: str, revision: str) -> CommitStatus:
    found = api.list_repo_refs(repo, include_pull_requests=True)
    heads = {ref.name: ref.target_commit for ref in (*found.branches, *found.tags)}
    for ref in (*(found.converts or ()), *(found.pull_requests or ())):
        heads[ref.ref] = ref.target_commit
    head = heads.get(revision)
    note = "" if head else f"the repository has no branch or tag {revision!r:.80}"
    if head is not None and head.startswith(commit):
        return CommitStatus(repo, commit, revision, None, True, head, (revision,))
    if len(heads) > MOST_REFS:
        note = f"only the histories of the first {MOST_REFS} of {len(heads)} refs were searched"
    held_by = []
    for name in sorted(heads, key=lambda name: name != revision)[:MOST_REFS]:
        history = api.list_repo_commits(repo, revision=name)
        if any(each.commit_id.startswith(commit) for each in history):
            held_by.append(name)
    is_held = revision in held_by
    code: Any = "COMMIT_NOT_HEAD" if is_held else "COMMIT_NOT_REACHABLE"
    return CommitStatus(repo, commit, revision, code, is_held, head, tuple(held_by), note)

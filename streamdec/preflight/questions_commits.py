"""The question whether a commit of a repository on the Hugging Face Hub can be reached.

In: a repository and a commit, or the folder of a snapshot in the hub's cache. Out: which branches,
tags and pull requests have the commit in their history. The hub is asked (extra ``hub``); without
it, or without the network, the local cache says what it last heard, and the commit is unverified.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from streamdec.backends._extras import library
from streamdec.errors import MissingExtraError, PreflightError

__all__ = ["CommitStatus", "verify_commit_reachable"]

MOST_REFS = 100
"""Branches, tags and pull requests whose history is asked for."""
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_SHA = re.compile(r"[0-9a-f]{7,40}")

Code = Literal["COMMIT_NOT_REACHABLE", "COMMIT_NOT_HEAD", "COMMIT_UNVERIFIED"]


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """What is known of a commit. It is true where the history of the revision has the commit.

    >>> from streamdec.preflight import verify_commit_reachable
    >>> status = verify_commit_reachable("org/model", "6ad52ee", offline=True)
    >>> bool(status), status.reachable, status.source
    (False, None, 'none')
    """

    repo_id: str
    """The repository: ``org/model``."""
    commit: str
    """In hexadecimal, as many digits as were given."""
    revision: str
    """The branch or tag that should have it."""
    code: Code | None
    """The finding; None where the commit is the head of the revision."""
    reachable: bool | None
    """Whether the history of the revision has it; None if nobody was asked."""
    head: str | None
    """The head of the revision: of now, or, if the hub was not asked, as the cache heard last."""
    held_by: tuple[str, ...]
    """The refs whose history has it, as far as was looked: ``main``, ``refs/pr/3`` …"""
    source: Literal["hub", "cache", "none"]
    """Who answered."""
    note: str = ""
    """Why the hub did not answer, or what else was not looked at."""

    def __bool__(self) -> bool:
        return bool(self.reachable)


class _Ref(NamedTuple):
    """A branch, tag or pull request."""

    name: str
    head: str


def verify_commit_reachable(
    repo_id: str | os.PathLike[str],
    commit_sha: str | None = None,
    *,
    revision: str = "main",
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> CommitStatus:
    """Whether the history of a revision has a commit, and which others have it.

    A commit of a pull request that was never merged can be downloaded by its name like any other,
    and what it mends is not in what everybody else gets.

    Args:
        repo_id: ``org/model``; or the folder of a snapshot in the hub's cache, which tells the
            repository and the commit.
        commit_sha: in hexadecimal, seven digits at least; not needed for such a folder.
        revision: the branch or tag that should have it.
        offline: whether only the cache is asked. So it is too where ``HF_HUB_OFFLINE`` says so.
        cache_dir: of the hub; by default where the hub's own library has it.

    Raises :class:`~streamdec.PreflightError` for what is no repository, no commit or no folder of
    the cache. If the hub does not answer, the code is ``COMMIT_UNVERIFIED`` and the note says why.

    Cost: one request for the refs, and those for the histories of up to 100 of them.

    >>> from streamdec.preflight import verify_commit_reachable
    >>> status = verify_commit_reachable("org/model", "6ad52ee", offline=True)
    >>> status.code, status.note
    ('COMMIT_UNVERIFIED', 'the hub was not to be asked')
    """
    repo, commit, cache = _asked(repo_id, commit_sha, cache_dir)
    if offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return _from_cache(repo, commit, revision, cache, "the hub was not to be asked")
    try:
        api = library("huggingface_hub", "hub", "asking the hub for commits needs").HfApi()
        return _from_hub(api, repo, commit, revision)
    except MissingExtraError as error:
        return _from_cache(repo, commit, revision, cache, str(error))
    # Of the network, the server and the library; they have no root in common.
    except Exception as error:  # noqa: BLE001
        told = (
            f"the hub did not answer: {type(error).__name__}: {' '.join(str(error).split()):.300}"
        )
        return _from_cache(repo, commit, revision, cache, told)


def _asked(
    repo_id: str | os.PathLike[str], commit: str | None, cache_dir: str | os.PathLike[str] | None
) -> tuple[str, str, Path]:
    """The repository, the commit, and the folder that the cache has of it."""
    given = os.fspath(repo_id)
    folder = Path(os.path.realpath(given))
    if folder.is_dir() and folder.parent.name == "snapshots":
        kept = folder.parent.parent
        if not kept.name.startswith("models--"):
            raise PreflightError(f"{given!r:.200} is in no cache of the hub: {kept.name!r:.100}")
        repo, commit = kept.name.removeprefix("models--").replace("--", "/"), commit or folder.name
    elif commit is None:
        raise PreflightError(
            f"{given!r:.200} is no folder of the hub's cache (models--org--name/snapshots/commit): "
            "name the commit too"
        )
    else:
        repo = given
        kept = _cache(cache_dir) / f"models--{repo.replace('/', '--')}"
    if not _ID.fullmatch(repo):
        raise PreflightError(f"{repo!r:.200} is not an id of the Hub, such as 'org/model'")
    if not _SHA.fullmatch(str(commit).lower()):
        raise PreflightError(f"{commit!r:.100} is no commit: 7 to 40 hexadecimal digits")
    return repo, commit.lower(), kept


def _cache(cache_dir: str | os.PathLike[str] | None) -> Path:
    """Where the hub's library keeps its cache (its ``constants.py``)."""
    if cache_dir is not None:
        return Path(cache_dir)
    home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", str(Path(home) / "huggingface"))
    hub = os.environ.get("HUGGINGFACE_HUB_CACHE", str(Path(home) / "hub"))
    return Path(os.path.expandvars(os.environ.get("HF_HUB_CACHE", hub))).expanduser()


def _from_cache(repo: str, commit: str, revision: str, kept: Path, note: str) -> CommitStatus:
    """What the cache heard last: the heads of the refs that were ever downloaded."""
    refs = list(_cached_refs(kept / "refs"))
    head = next((ref.head for ref in refs if ref.name == revision), None)
    return CommitStatus(
        repo_id=repo,
        commit=commit,
        revision=revision,
        code="COMMIT_UNVERIFIED",
        reachable=None,
        head=head,
        held_by=tuple(ref.name for ref in refs if ref.head.startswith(commit)),
        source="cache" if refs else "none",
        note=note,
    )


def _cached_refs(folder: Path) -> Iterator[_Ref]:
    try:
        found = sorted(path for path in folder.rglob("*") if path.is_file())[:MOST_REFS]
        for path in found:
            head = path.read_text("ascii", "replace")[:100].strip()
            if _SHA.fullmatch(head):
                yield _Ref(path.relative_to(folder).as_posix(), head)
    except OSError:
        return


def _from_hub(api: Any, repo: str, commit: str, revision: str) -> CommitStatus:
    refs = _refs_of(api.list_repo_refs(repo, include_pull_requests=True))
    named = [ref for ref in refs if ref.name == revision]
    others = [ref for ref in refs if ref.name != revision]
    head = named[0].head if named else None
    note = "" if named else f"the repository has no branch or tag {revision!r:.80}"
    if head is not None and head.startswith(commit):
        return CommitStatus(repo, commit, revision, None, True, head, (revision,), "hub", note)
    held_by, left = [], MOST_REFS
    for ref in (*named, *others):
        if ref.head.startswith(commit):
            held_by.append(ref.name)
        elif left:
            left -= 1
            history = api.list_repo_commits(repo, revision=ref.name)
            if any(each.commit_id.startswith(commit) for each in history):
                held_by.append(ref.name)
    if not left:
        note = f"the history of the first {MOST_REFS} refs of {len(refs)} was looked at"
    return CommitStatus(
        repo_id=repo,
        commit=commit,
        revision=revision,
        code="COMMIT_NOT_HEAD" if revision in held_by else "COMMIT_NOT_REACHABLE",
        reachable=revision in held_by,
        head=head,
        held_by=tuple(held_by),
        source="hub",
        note=note,
    )


def _refs_of(found: Any) -> list[_Ref]:
    """Branches first, then tags, what the hub converted, and pull requests."""
    refs = [_Ref(ref.name, ref.target_commit) for ref in (*found.branches, *found.tags)]
    more = (*(found.converts or ()), *(found.pull_requests or ()))
    return refs + [_Ref(ref.ref, ref.target_commit) for ref in more]

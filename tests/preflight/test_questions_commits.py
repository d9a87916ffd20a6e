"""Whether a commit is reachable: the hub's client asks a hub of the tests, or the cache is read."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import TokenizerLoadError
from streamdec.preflight import verify_commit_reachable

constants = pytest.importorskip("huggingface_hub.constants")
_http = pytest.importorskip("huggingface_hub.utils._http")

HEAD, OLD, PATCH, ORPHAN = ("a" * 40, "b" * 40, "6ad52ee" + "c" * 33, "d" * 40)
HISTORIES = {"main": [HEAD, OLD], "v1": [OLD], "refs/pr/1": [PATCH, HEAD, OLD]}
"""A patch of a pull request that was never merged, and a commit that nothing holds."""


def ref(name: str, path: str) -> dict[str, str]:
    return {"name": name, "ref": path, "targetCommit": HISTORIES[name][0]}


def commit_of(commit: str) -> dict[str, Any]:
    date = "2026-01-26T12:00:00.000Z"
    return {"id": commit, "title": "", "message": "", "date": date, "authors": []}


REFS = {"branches": [ref("main", "refs/heads/main")], "tags": [ref("v1", "refs/tags/v1")]}
REFS |= {"converts": [], "pullRequests": []}
PULLS = {"pullRequests": [ref("refs/pr/1", "refs/pr/1")]}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as lists refs and commits."""

    def do_GET(self) -> None:
        path, _, query = self.path.removeprefix("/api/models/org/model/").partition("?")
        name = path.removeprefix("commits/").replace("%2F", "/")
        value: Any
        if path == "refs":
            value = REFS | (PULLS if "include_prs" in query else {})
        elif name in HISTORIES:
            value = [] if "p=1" in query else [*map(commit_of, HISTORIES[name])]
        else:
            self.send_error(404)
            return
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        yield
        server.shutdown()


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("commit", "revision", "code", "held_by", "reachable"),
    [
        (HEAD, "main", None, ("main",), True),
        (HEAD[:7], "main", None, ("main",), True),
        (HEAD.upper(), "main", None, ("main",), True),
        (OLD, "main", "COMMIT_NOT_HEAD", ("main", "v1", "refs/pr/1"), True),
        (OLD, "v1", None, ("v1",), True),
        (PATCH, "main", "COMMIT_NOT_REACHABLE", ("refs/pr/1",), False),
        ("6ad52ee", "main", "COMMIT_NOT_REACHABLE", ("refs/pr/1",), False),
        (ORPHAN, "main", "COMMIT_NOT_REACHABLE", (), False),
    ],
)
def test_a_commit_is_found_on_the_hub(
    commit: str, revision: str, code: str | None, held_by: tuple[str, ...], reachable: bool
) -> None:
    found = verify_commit_reachable("org/model", commit, revision=revision)
    assert found.code == code
    assert found.held_by == held_by
    assert found.reachable is reachable
    assert found.head == HISTORIES[revision][0]


@pytest.mark.usefixtures("hub")
def test_an_unknown_revision_or_repository() -> None:
    found = verify_commit_reachable("org/model", HEAD, revision="develop")
    assert (found.reachable, found.head) == (False, None)
    assert found.held_by == ("main", "refs/pr/1")
    assert found.note == "the repository has no branch or tag 'develop'"
    found = verify_commit_reachable("org/other", HEAD)
    assert (found.code, found.reachable) == ("COMMIT_UNVERIFIED", None)
    assert found.note.startswith("the hub did not answer: ")
    assert "404" in found.note


@pytest.mark.usefixtures("hub")
def test_a_folder_of_the_cache_says_which_commit_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "models--org--model" / "snapshots" / OLD
    folder.mkdir(parents=True)
    found = verify_commit_reachable(folder)
    assert (found.repo_id, found.commit) == ("org/model", OLD)
    assert (found.code, found.reachable) == ("COMMIT_NOT_HEAD", True)


@pytest.mark.parametrize("how", ["argument", "environment", "library", "network"])
def test_without_the_hub_the_commit_is_unverified(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    if how == "environment":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        if cached := getattr(_http, "_get_session_from_cache", None):  # before 1.0
            monkeypatch.setattr(_http, cached.__name__, cached.__wrapped__)
    elif how == "library":
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    offline = how == "argument"
    found = verify_commit_reachable("org/model", OLD, offline=offline)
    assert (found.code, found.reachable) == ("COMMIT_UNVERIFIED", None)
    assert (found.head, found.held_by) == (None, ())
    expected = {
        "argument": "offline: the hub was not asked",
        "environment": "the hub did not answer: OfflineModeIsEnabled",
        "library": "pip install 'streamdec[hub]'",
        "network": "the hub did not answer",
    }
    assert expected[how] in found.note


@pytest.mark.parametrize(
    ("repo", "commit", "message"),
    [
        ("org/model", None, "pass commit_sha"),
        ("org/model", "main", "is not a commit; expected 7 to 40 hexadecimal digits"),
        ("org/model", "6ad52e", "is not a commit"),
        ("../../etc", HEAD, "is not an id of the Hub"),
        ("a/b/c", HEAD, "is not an id of the Hub"),
        ("", HEAD, "is not an id of the Hub"),
    ],
)
def test_a_malformed_commit_is_one_error(repo: str, commit: str | None, message: str) -> None:
    with pytest.raises(TokenizerLoadError, match=message):
        verify_commit_reachable(repo, commit, offline=True)


def test_a_folder_that_is_in_no_cache_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "other" / "snapshots" / HEAD).mkdir(parents=True)
    with pytest.raises(TokenizerLoadError, match="is not in a cache of the hub"):
        verify_commit_reachable(tmp_path / "other" / "snapshots" / HEAD, offline=True)
    with pytest.raises(TokenizerLoadError, match="is not a folder of the hub's cache"):
        verify_commit_reachable(tmp_path, offline=True)

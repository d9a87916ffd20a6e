"""Ids of the Hub: from the cache first, and from a server only if that was allowed.

The client is the real one; the server is a small one of this test's, which counts what it is asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import MissingExtraError, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from streamdec.loading.places import find_snapshot, is_hub_id
from tests.support.files import tekken
from tests.support.zoo import ZOO

huggingface_hub = pytest.importorskip("huggingface_hub")

ROOT = Path(__file__).resolve().parents[2]
COMMIT, OLDER = "c" * 40, "0" * 40
TOKENIZER = ZOO["byte_level_trained"]().to_str().encode()
FILES = {
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": b'{"eos_token": "<eos>"}',
    "model.safetensors": b"weights, which are not needed here",
}


# --- the cache ------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no network."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "tiktoken"))
    monkeypatch.delenv("STREAMDEC_FAST", raising=False)
    return tmp_path / "hub"


def fill(cache: Path, repo: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    """Put a snapshot into the cache, as huggingface_hub lays it out."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for name, content in files.items():
        (snapshot / name).write_bytes(content)
    return snapshot


def test_a_snapshot_of_the_cache_is_taken(cache: Path) -> None:
    snapshot = fill(cache, "org/model", FILES)
    for name in ("org/model", "hf://org/model"):
        tokenizer = load_tokenizer(name, fast="off")
        assert tokenizer.report.revision == COMMIT
        assert tokenizer.report.sha256 == hashlib.sha256(TOKENIZER).hexdigest()
        assert tokenizer.special_tokens.eos_token == "<eos>"
        assert str(snapshot) in repr(tokenizer)
    # Allowed or not: what is in the cache is not asked for again.
    assert load_tokenizer("org/model", allow_download=True).report.revision == COMMIT


def test_a_revision_is_one_of_the_hub(cache: Path, tmp_path: Path) -> None:
    fill(cache, "org/model", {"tekken.json": json.dumps(tekken()).encode()}, OLDER)
    fill(cache, "org/model", FILES)
    old = load_tokenizer("org/model", revision=OLDER)
    assert (old.report.format, old.report.revision) == ("tekken", OLDER)
    assert load_tokenizer("org/model", revision="main").report.revision == COMMIT
    with pytest.raises(TokenizerLoadError, match="revision 'v2': it is not in the local cache"):
        load_tokenizer("org/model", revision="v2")
    with pytest.raises(TokenizerLoadError, match="revision='main' is only for an id of the Hub"):
        load_tokenizer(tmp_path, revision="main")


def test_a_folder_here_comes_before_an_id(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache, "org/model", FILES)
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "org" / "model" / "tekken.json").write_text(json.dumps(tekken()))
    monkeypatch.chdir(tmp_path)
    assert load_tokenizer("org/model").report.format == "tekken"
    assert load_tokenizer("hf://org/model").report.format == "huggingface"


def test_names_of_other_models_are_not_taken_for_openais(cache: Path) -> None:
    fill(cache, "org/gpt-4o-tuned", FILES)
    assert load_tokenizer("org/gpt-4o-tuned").report.revision == COMMIT
    with pytest.raises(TokenizerLoadError, match="the rank file of o200k_base is not in the cache"):
        load_tokenizer("openai/gpt-4o-tuned")


@pytest.mark.usefixtures("cache")
def test_the_error_for_a_model_outside_the_cache_says_what_to_do() -> None:
    message = (
        r"'org/model' of the Hugging Face Hub: it is not in the local cache, and downloads are not"
    )
    with pytest.raises(TokenizerLoadError, match=message):
        load_tokenizer("hf://org/model")
    with pytest.raises(TokenizerLoadError, match=rf"'org/model': No such file.*; .*{message}"):
        load_tokenizer("org/model")
    with pytest.raises(TokenizerLoadError, match="is not an id of the Hub"):
        load_tokenizer("hf://org/model/file")
    with pytest.raises(TokenizerLoadError, match=r"and the download failed: .+ Give the path of a"):
        load_tokenizer("org/model", allow_download=True)


def test_a_snapshot_without_a_tokenizer_says_what_is_there(cache: Path) -> None:
    fill(cache, "org/model", {"config.json": b"{}"})
    message = r"a folder with config\.json but no tokenizer\.json, and downloads are not allowed"
    with pytest.raises(TokenizerLoadError, match=message):
        find_snapshot("org/model")


def test_without_the_library_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamdec\[hub\]'"):
        load_tokenizer("hf://org/model")
    with pytest.raises(TokenizerLoadError, match=r"No such file.*pip install 'streamdec\[hub\]'"):
        load_tokenizer("org/model")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("org/model", True),
        ("Qwen/Qwen3-0.6B", True),
        ("gpt2", True),
        ("", False),
        ("a/b/c", False),
        ("./model", False),
        ("../model", False),
        ("/model", False),
        ("org/", False),
        ("org/model.git", False),
        ("org/mo del", False),
        ("o" * 97 + "/m", False),
        ("{}", False),
    ],
)
def test_names_that_can_be_ids_of_the_hub(name: str, is_one: bool) -> None:
    assert is_hub_id(name) == is_one


# --- the server -----------------------------------------------------------------------------------


class Hub(ThreadingHTTPServer):
    """As much of a Hub as a client needs for one repository, ``org/model``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        content = None
        if path.startswith("/api/models/org/model"):
            siblings = [{"rfilename": name} for name in FILES]
            entries = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
                for name, data in FILES.items()
            ]
            told: Any = {"id": "org/model", "sha": COMMIT, "siblings": siblings}
            content = json.dumps(entries if "/tree/" in path else told).encode()
        elif path.startswith(f"/org/model/resolve/{COMMIT}/"):
            content = FILES.get(path.rpartition("/")[2])
        self.send_response(404 if content is None else 200)
        body = content or b"{}"
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def load_in_a_process(hub: Hub, home: Path, *, allow_download: bool) -> Any:
    """Load ``org/model`` by a new process, whose Hub is ours; its report, or its error."""
    program = (
        "import dataclasses, json, streamdec, sys\n"
        "try:\n"
        "    found = streamdec.load_tokenizer('org/model', allow_download=sys.argv[1] == 'True')\n"
        "    print(json.dumps(dataclasses.asdict(found.report)))\n"
        "except streamdec.TokenizerLoadError as error:\n"
        "    print(json.dumps(str(error)))\n"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }
    arguments = [sys.executable, "-c", program, str(allow_download)]
    done = subprocess.run(
        arguments, env=environment, cwd=ROOT, capture_output=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_only_what_is_allowed_is_downloaded_and_only_tokenizers(hub: Hub, tmp_path: Path) -> None:
    refused = load_in_a_process(hub, tmp_path, allow_download=False)
    assert "downloads are not allowed" in refused
    assert hub.asked == []
    report = load_in_a_process(hub, tmp_path, allow_download=True)
    assert report["revision"] == COMMIT
    assert report["sha256"] == hashlib.sha256(TOKENIZER).hexdigest()
    assert any(path.endswith("/tokenizer.json") for path in hub.asked)
    assert not any("safetensors" in path for path in hub.asked)
    hub.asked.clear()
    for allow_download in (False, True):
        again = load_in_a_process(hub, tmp_path, allow_download=allow_download)
        assert again["revision"] == COMMIT
    assert hub.asked == []

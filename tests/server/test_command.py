"""``streamdec serve``: what its options do, and how the process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from streamdec.cli.serve import _eos_token_ids, _hosts, serve
from tests.cli.running import DEMO_TEXT, LIBRARY, ROOT, command, root_context, run
from tests.server.serving import DEMO, tokenizer_in

MODULE = """
import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
import anyio

class Hanging:
    @asynccontextmanager
    async def lifespan(self):
        Path("alive").touch()
        yield
        Path("alive").unlink()

    async def __call__(self, prompt, params):
        try:
            for token_id in prompt:
                yield token_id
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0.3)
            Path("closed").touch()

def plain(prompt, params):
    try:
        yield from prompt
        while True:
            time.sleep(0.05)
            yield prompt[0]
    finally:
        time.sleep(0.3)
        Path("closed").touch()
"""


ENV = {**os.environ, "STREAMDEC_FAST": "off", "PYTHONPATH": str(ROOT)}


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, as soon as it can be asked."""
    asked = command("serve", "--port", "0", *options)
    process = subprocess.Popen(asked, cwd=folder, env=ENV, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while "running on " not in line:
            assert line, "it did not begin"
            line = process.stderr.readline()
        yield process, line.split("running on ")[1].split()[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("engine", "sent"), [("Hanging", signal.SIGINT), ("plain", signal.SIGTERM)]
)
def test_running_streams_end_before_the_process(
    tmp_path: Path, engine: str, sent: signal.Signals
) -> None:
    """After a signal they may continue for the grace; then they are cut, and engines closed.

    The process waits until they have closed.
    """
    (tmp_path / "mine.py").write_text(MODULE)
    options = (str(DEMO), "--engine", f"mine:{engine}", "--grace", "1", "--model", "named")
    with (
        serving(tmp_path, *options) as (process, url),
        httpx.Client(base_url=url, timeout=20, verify=False) as http,
    ):
        assert (tmp_path / "alive").exists() is (engine == "Hanging")
        assert http.get("/").status_code == 404  # with an engine there is no page
        body = {"prompt": "One two", "stream": True, "model": "named"}
        with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(sent)
            assert not (tmp_path / "closed").exists()
            with contextlib.suppress(httpx.RemoteProtocolError):
                assert "data: [DONE]" not in [*lines]
        assert process.wait(20) in (0, -sent)
        assert (tmp_path / "closed").exists()
        assert not (tmp_path / "alive").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])
def test_an_address_that_cannot_be_bound_is_an_error(host: str, tmp_path: Path) -> None:
    """The port is in use; no interface has the host, which is for documentation (RFC 5737)."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command("serve", "--host", host, "--port", port),
            cwd=tmp_path,
            env=ENV,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    *others, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert last.startswith(f"Error: the server did not start on {host}, port {port};")
    assert any("while attempting to bind on address" in line for line in others)


def test_without_an_engine_the_text_of_the_demo_is_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """End-of-sequence ids of the option replace those of the model's files."""
    made: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda application, **_: made.append(application))
    text = DEMO_TEXT.rstrip("\n")
    ids = LIBRARY.encode(text).ids
    for options in ([], ["--eos-id", str(ids[5]), "--eos-id", str(ids[4])]):
        run(monkeypatch, "serve", "--rate", "0", *options)
        with TestClient(made.pop(), base_url="http://localhost") as http:
            found = http.post("/v1/completions", json={"prompt": "Hi"}).json()
            assert found["choices"][0]["text"] == (LIBRARY.decode(ids[:4]) if options else text)
            assert (found["model"], found["choices"][0]["finish_reason"]) == ("demo", "stop")
            assert "behind a proxy" in http.get("/").text
            for host, status in (("127.0.0.1:99", 200), ("evil.example", 400)):
                assert http.get("/", headers={"host": host}).status_code == status


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, keys in (("one two", ("one", "two")), ("", ()), (None, ())):
        if said is None:
            monkeypatch.delenv("STREAMDEC_API_KEY")
        else:
            monkeypatch.setenv("STREAMDEC_API_KEY", said)
        context = serve.make_context("serve", [], parent=root_context())
        assert context.params["api_keys"] == keys
    monkeypatch.setenv("STREAMDEC_API_KEY", " ")
    result = run(monkeypatch, "serve")
    assert result.status == 2
    assert "STREAMDEC_API_KEY has no key" in result.err


def test_only_local_host_names_reach_a_local_server() -> None:
    own = {"localhost", "127.0.0.1", "[::1]"}
    assert {*_hosts("127.0.0.1", ())} == own
    assert {*_hosts("::1", ("mine.example",))} == own | {"mine.example"}
    assert _hosts("0.0.0.0", ()) == ["*"]
    assert {*_hosts("0.0.0.0", ("mine.example",))} == own | {"0.0.0.0", "mine.example"}


def test_end_of_sequence_ids_are_read_from_the_models_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A name has no files in the working directory."""
    loaded: Any = tokenizer_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert _eos_token_ids(str(tmp_path), loaded) == []
    for said, found in (("2", [2]), ('"x"', []), ("null", []), ("[2, 7]", [2, 7])):
        config = f'{{"eos_token_id": {said}}}'
        (tmp_path / "generation_config.json").write_text(config)
        assert _eos_token_ids(str(tmp_path), loaded) == found
    assert _eos_token_ids("tokenizer.json", loaded) == [2, 7]
    assert _eos_token_ids("some_name", loaded) == []

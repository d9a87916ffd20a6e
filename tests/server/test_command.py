"""``streamdec serve`` as a process: it starts at once, and ends as its options say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamdec.cli.serve import _eos_token_ids, _hosts, serve
from streamdec.cli.statuses import STUCK
from tests.cli.running import DEMO_TEXT, Run, root_context, run
from tests.server.serving import DEMO, tokenizer_in, until
from tests.support.pages import printed_by

QUICKLY = {"STREAMDEC_FAST": "off"}
"""Nothing is compared when a tokenizer is loaded."""
ENGINE = ("--tokenizer", str(DEMO), "--engine")
MODULE = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

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
            Path("closed").touch()

class Stubborn:
    async def __call__(self, prompt, params):
        yield prompt[0]
        while True:
            try:
                await asyncio.sleep(9)
            except asyncio.CancelledError:
                pass

class NoRoom(Hanging):
    max_concurrency = 0

number = 5

def wrong():
    return []
"""


@contextmanager
def serving(
    folder: Path, *options: str, program: str | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, as soon as it can be asked."""
    run = ["-m", "streamdec", "serve", "--port", "0"] if program is None else ["-c", program]
    command = [sys.executable, *run, *options]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **QUICKLY, "PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while "Serving on " not in line:
            assert line, "it did not begin"
            line = process.stderr.readline()
        yield process, line.split("Serving on ")[1].split()[0]
    finally:
        process.kill()
        process.communicate()


def test_shutting_down(tmp_path: Path) -> None:
    """SIGTERM: new requests get 503; running ones continue, and are aborted after the grace."""
    (tmp_path / "mine.py").write_text(MODULE)
    options = (*ENGINE, "mine:Hanging", "--grace", "1", "--model", "named")
    with (
        serving(tmp_path, *options) as (process, url),
        httpx.Client(base_url=url, timeout=20, verify=False) as http,
    ):
        assert (tmp_path / "alive").exists()
        assert http.get("/").status_code == 404  # with an engine there is no page
        body = {"prompt": "One two", "stream": True, "model": "named"}
        with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            text = ""
            while text != "One two":
                line = next(lines)
                text += json.loads(line[6:])["choices"][0]["text"] if line else ""
            process.send_signal(signal.SIGTERM)
            until(lambda: http.get("/health").status_code == 503)
            refused = http.post("/v1/completions", json=body)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "shutting_down"
            assert not (tmp_path / "closed").exists()
            rest = [line for line in lines if line]
        assert json.loads(rest[0][6:])["error"]["code"] == "abort"
        assert rest[1:] == ["data: [DONE]"]
        assert process.wait(20) == 0
        assert (tmp_path / "closed").exists()
        assert not (tmp_path / "alive").exists()


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    with serving(tmp_path, *ENGINE, "mine:Hanging") as (process, url):
        body = {"prompt": "One two", "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=20) as response:
            lines = response.iter_lines()  # which closes the response when it is forgotten
            next(lines)
            process.send_signal(signal.SIGINT)
            until(lambda: httpx.get(f"{url}/health").status_code == 503)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


def test_an_engine_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    start = "import sys, streamdec.server.running as running; running.EXIT_SECONDS = 1.0\n"
    start += "from streamdec.cli import main; main(['serve', '--port', '0', *sys.argv[1:]])\n"
    (tmp_path / "mine.py").write_text(MODULE)
    options = (*ENGINE, "mine:Stubborn", "--grace", "0.1")
    with serving(tmp_path, *options, program=start) as (process, url):
        body = {"prompt": "One two", "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=20) as response:
            next(response.iter_lines())
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == STUCK
        assert process.stderr is not None
        assert "an engine did not end in time" in process.stderr.read()


def test_objects_of_the_start_are_not_collected_while_serving(tmp_path: Path) -> None:
    tokenizer_in(tmp_path)
    printed = printed_by(
        "import gc, signal\n"
        "from streamdec import load_tokenizer\n"
        "from streamdec.server import ReplayEngine, create_app, serve\n"
        "def at_once(address):\n"
        "    print(gc.get_freeze_count() > 1_000)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        f"tokenizer = load_tokenizer({str(tmp_path)!r}, fast='off')\n"
        "serve(create_app(tokenizer, ReplayEngine([5])), port=0, on_start=at_once)\n"
        "print(gc.get_freeze_count())\n"
    )
    assert printed == ["True", "0"]


def test_serve_runs_without_a_model_and_an_engine(tmp_path: Path) -> None:
    """With the demo's tokenizer and text; and running streams end before it does."""
    with (
        serving(tmp_path, "--rate", "0") as (process, url),
        httpx.Client(base_url=url, timeout=20, verify=False) as http,
    ):
        whole = DEMO_TEXT.rstrip("\n")
        found = http.post("/v1/completions", json={"prompt": "Hi"}).json()
        assert found["choices"][0]["text"] == whole
        assert (found["model"], found["choices"][0]["finish_reason"]) == ("demo", "stop")
        messages = [{"role": "user", "content": "Hi"}]
        found = http.post("/v1/chat/completions", json={"messages": messages, "stop": "\nUser:"})
        text = found.json()["choices"][0]["message"]["content"]
        assert text == whole.partition("\nUser:")[0]
        assert "Watch a stream" in http.get("/").text
        assert http.get("/", headers={"host": "evil.example"}).status_code == 421
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([*ENGINE, "mine"], "as module:callable, such as mine:generate, not 'mine'"),
        ([*ENGINE, "mine.py"], "as module:callable, such as mine:generate, not 'mine.py'"),
        ([*ENGINE, "not_there:run"], "'not_there'; run in the folder that has not_there.py"),
        ([*ENGINE, "not_there.more:run"], "'not_there'; run in the folder that has not_there"),
        ([*ENGINE, "lacking:run"], "lacking:run: no module named 'what_it_imports'\n"),
        ([*ENGINE, "mine:nothing"], "mine:nothing: the module 'mine' has no 'nothing'\n"),
        ([*ENGINE, "mine:NoRoom.nothing"], "mine:NoRoom.nothing: 'NoRoom' has no 'nothing'\n"),
        ([*ENGINE, "mine:number"], "must be callable with (prompt_token_ids, params), not 5"),
        ([*ENGINE, "mine:wrong"], "but this one has the parameters ()"),
        ([*ENGINE, "mine.py:number"], "expected a module, not a file: write mine:number"),
        ([*ENGINE, "./mine.py:number"], "not a file: write mine:number"),
        ([*ENGINE, "/a/b/mine.py:number"], "write mine:number, and run in the folder '/a/b'"),
        (["--tokenizer", "not_there"], "not_there"),
        (
            [*ENGINE, "mine:NoRoom"],
            "max_concurrency of the engine must be an integer of at least 1, not 0",
        ),
        (["--rate", "nan"], "nan is not finite"),
        (["--grace", "inf"], "inf is not finite"),
        (["--model", " "], "not empty"),
        (["--model", "a\nb"], "printable"),
        (["--text", "bytes.txt"], "bytes.txt is not UTF-8: byte 3"),
        (["--port", "70000"], "70000"),
        (["--host", "203.0.113.1"], "Error: 203.0.113.1:8000: cannot listen (Can"),
        (["--host", "203.0.113.1"], "assign requested address); choose another host or port\n"),
        (["--text", "not_there.txt"], "not_there.txt"),
        (["--api-key", ""], "not empty"),
        (["--limit-key-tokens", "9"], "--limit-key-* needs --api-key"),
        (["--api-key", "a key"], "without spaces"),
        (["--allow-origin", "app.example"], "'--allow-origin': an origin is a scheme and a host"),
        (["--allow-origin", "https://app.example/"], "without * or a path"),
        (["--allow-host", "https://app.example"], "'--allow-host': a host is a name"),
        (["--allow-host", "app.example:8080"], "without scheme, port and path"),
        (["--allow-host", "*.app.example"], "not '*.app.example'"),
        (
            ["--limit-default-max-tokens", "9", "--limit-max-tokens", "8"],
            "'--limit-default-max-tokens': 9 is more than --limit-max-tokens 8",
        ),
        (["--chat-template", "not_there.jinja"], "not_there.jinja"),
        ([*ENGINE, "mine:Hanging", "--text", "mine.py"], "--text is only for the replay"),
        (["--engine", "mine:Hanging"], "--engine needs --tokenizer, that of the engine's model"),
    ],
)
def test_wrong_options_of_serve_are_status_2(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "lacking.py").write_text("import what_it_imports")
    (tmp_path / "bytes.txt").write_bytes(b"One\xff")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(*next(iter(QUICKLY.items())))
    done: Run = run(monkeypatch, "serve", *options)
    sys.modules.pop("mine", None)
    assert done.status == 2
    assert told in done.err
    assert "Traceback" not in done.err


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, keys in (("one two", ("one", "two")), ("", ()), (None, ())):
        if said is None:
            monkeypatch.delenv("STREAMDEC_API_KEY")
        else:
            monkeypatch.setenv("STREAMDEC_API_KEY", said)
        context = serve.make_context("serve", [], parent=root_context())
        assert context.params["api_keys"] == keys


def test_origins_are_compared_as_browsers_write_them() -> None:
    options = ["--allow-origin", "HTTPS://App.example:8443", "--allow-origin", "*"]
    context = serve.make_context("serve", options, parent=root_context())
    assert context.params["allow_origins"] == ("https://app.example:8443", "*")


def test_only_local_host_names_reach_a_local_server() -> None:
    own = {"localhost", "127.0.0.1", "[::1]"}
    assert _hosts("127.0.0.1", ()) == own
    assert _hosts("LOCALHOST", ()) == own
    assert _hosts("::1", ("Mine.example",)) == own | {"mine.example"}
    assert _hosts("fd00::A", ("mine.example",)) == own | {"[fd00::a]", "mine.example"}
    assert _hosts("0.0.0.0", ()) is None
    assert _hosts("0.0.0.0", ("mine.example",)) == own | {"0.0.0.0", "mine.example"}
    assert _hosts("fe80::1%eth0", ("mine.example",)) == own | {"[fe80::1]", "mine.example"}
    assert _hosts("", ("mine.example",)) == own | {"mine.example"}  # all addresses


def test_end_of_sequence_ids_are_read_from_the_models_files(tmp_path: Path) -> None:
    loaded: Any = tokenizer_in(tmp_path)
    assert _eos_token_ids(str(tmp_path), loaded) == []
    for said, found in (("[2, 7]", [2, 7]), ("2", [2]), ('"x"', []), ("null", [])):
        config = f'{{"eos_token_id": {said}}}'
        (tmp_path / "generation_config.json").write_text(config)
        assert _eos_token_ids(str(tmp_path), loaded) == found


def test_a_name_has_no_files_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: Any = tokenizer_in(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    monkeypatch.chdir(tmp_path)
    assert _eos_token_ids("some_name", loaded) == []
    assert _eos_token_ids("tokenizer.json", loaded) == [2, 7]

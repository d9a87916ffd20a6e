"""Every format through the one door, and names."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given

from streamdec.backends import rank_files
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import VARIABLE
from streamdec.core.shared_tables import route_of
from streamdec.errors import StreamdecWarning, TokenizerLibraryError, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from streamdec.tokenizers.encodings import RankFile
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer
from tests.hooks.recording import recording
from tests.strategies import RANDOM
from tests.support.files import FORMATS, SMALL, rank_file, tekken, write_format, write_json
from tests.support.pages import DEMO
from tests.support.zoo import ZOO

pytest.importorskip("tiktoken")


def test_a_rank_file_needs_an_encoding_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "x.tiktoken").write_bytes(rank_file())
    with pytest.raises(TokenizerLoadError, match=r"x\.tiktoken': an unknown rank file"):
        load_tokenizer(tmp_path)
    assert load_tokenizer(tmp_path, encoding=SMALL).vocab_size == 301
    write_json(tmp_path / "vocab.json", {"h": 0})
    with pytest.warns(StreamdecWarning, match=r"contradict it: vocab\.json has id 0"):
        load_tokenizer(tmp_path, encoding=SMALL)
    write_json(tmp_path / "tekken.json", tekken())
    message = r"tekken\.json': remove encoding=.* a Tekken file"
    with pytest.raises(TokenizerLoadError, match=message):
        load_tokenizer(tmp_path, encoding=SMALL)


ACTIVE = {"tekken": "tiktoken", "tiktoken": "tiktoken", "sentencepiece": "sentencepiece"}


@pytest.fixture
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.usefixtures("_no_wish_from_outside")
@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_has_a_report_and_is_told_to_hooks(format_: str, tmp_path: Path) -> None:
    path, options = write_format(tmp_path, format_)
    with recording() as told:
        tokenizer = load_tokenizer(path, fast="off", **options)
        assert isinstance(tokenizer, LoadedTokenizer)
        tokenizer.encode("a")
        tokenizer.decode([1])
    report = tokenizer.report
    kind = ACTIVE.get(format_, format_)
    (loaded,) = told.loads
    assert loaded._replace(seconds=0) == (kind, str(path), format_, 0, tokenizer.vocab_size, None)
    assert loaded.seconds > 0
    calls = [(report.active, "encode"), (kind, "decode")]
    assert [(call.tokenizer_type, call.operation) for call in told.calls] == calls
    assert route_of(tokenizer) == "bytes"
    assert (report.format, report.requested) == (format_, "off")
    if format_ == "gguf":
        assert report.sha256 is None
    else:
        assert report.active == ACTIVE.get(format_, "huggingface")
        assert report.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
@pytest.mark.parametrize("format_", FORMATS)
@given(RANDOM)
def test_a_damaged_file_is_loaded_or_named(format_: str, tmp_path: Path, draw: Random) -> None:
    """No other error of Python or of a library is raised."""
    path, options = write_format(tmp_path, format_)
    content = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    path.write_bytes(content[: draw.randint(0, len(content))] if draw.random() < 0.5 else content)
    try:
        tokenizer = load_tokenizer(path, fast="off", **options)
        tokenizer.decode(tokenizer.sample_ids())
        told = repr(tokenizer)
    except (TokenizerLibraryError, TokenizerLoadError) as error:
        told = str(error)
    assert str(path) in told


def test_an_unknown_mode_is_the_same_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ZOO["byte_fallback"]().save(str(tmp_path / "hf"))
    write_json(tmp_path / "tekken", tekken())
    for name in ("hf", "tekken"):
        with pytest.raises(ValueError, match="fast must be one of off, now, background"):
            load_tokenizer(tmp_path / name, fast="rust")  # type: ignore[arg-type]
        monkeypatch.setenv(VARIABLE, "rust")
        with pytest.warns(StreamdecWarning, match="must be one of off, .*'rust'") as told:
            report = load_tokenizer(tmp_path / name).report
        assert [record.filename for record in told] == [__file__]
        assert report.requested == "background"
        assert os.environ[VARIABLE] == "rust"
        monkeypatch.delenv(VARIABLE)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of tiktoken, and no network."""
    import tiktoken.load

    def no_network(url: str) -> bytes:
        raise AssertionError(f"asked for {url}")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tiktoken.load, "read_file", no_network)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("gpt-4", "cl100k_base"), ("openai/gpt-oss-20b", "o200k_harmony"), ("gpt2", "gpt2")],
)
@pytest.mark.usefixtures("cache")
def test_a_name_never_goes_to_the_network(name: str, encoding: str) -> None:
    message = f"the rank file of {encoding} is not in the cache: downloads are not allowed"
    with pytest.raises(TokenizerLoadError, match=message):
        load_tokenizer(name)


@pytest.mark.parametrize("name", ["gpt-4", "cl100k_base"])
def test_a_name_is_served_from_the_cache(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RankFile(hashlib.sha256(rank_file()).hexdigest(), "https://example.org/a.tiktoken")
    spec = replace(SMALL, name="cl100k_base", files=(file,))
    monkeypatch.setattr(rank_files, "ENCODINGS", {"cl100k_base": spec})
    (cache / hashlib.sha1(file.url.encode()).hexdigest()).write_bytes(rank_file())
    report = load_tokenizer(name, fast="off").report
    assert (report.active, report.reason) == ("tiktoken", "the encoding cl100k_base")
    assert report.sha256 == file.sha256


def test_a_table_that_differs_warns_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the library had changed its rules: its decode is no longer what the table says."""
    decode = HuggingFaceTokenizer.decode

    def changed(
        self: HuggingFaceTokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        return decode(self, token_ids, skip_special_tokens=skip_special_tokens).upper()

    monkeypatch.setattr(HuggingFaceTokenizer, "decode", changed)
    ZOO["byte_fallback_strip"]().save(str(tmp_path / "tokenizer.json"))
    with pytest.warns(StreamdecWarning, match="the compiled table differs from decode"):
        tokenizer = load_tokenizer(os.fsencode(tmp_path))  # type: ignore[arg-type]
    assert route_of(tokenizer) == "window"


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ("", TokenizerLoadError, "^path_or_name is empty"),  # not the working directory
        (b"", TokenizerLoadError, "^path_or_name is empty"),
        (None, TypeError, "^path_or_name must be a path or a name, not None$"),
        (["a"], TypeError, r"^path_or_name must be a path or a name, not \['a'\]$"),
        ('{"model": ' + "x" * 9_000, TokenizerLoadError, "^'{.{,600}$"),
        (
            "model.zip",
            TokenizerLoadError,
            "^'model.zip': found a compressed file \\(unpack it\\); supported: a Hug",
        ),
    ],
)
def test_what_is_not_a_tokenizer_is_an_error(
    given: Any, error: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK\x03\x04")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=told):
        load_tokenizer(given)


def test_a_path_of_this_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DEMO, "demo")
    other = ZOO["wordpiece"]()
    other.save("demo/tokenizer.json")
    found = load_tokenizer("demo", fast="off", apply_tokenizer_config=False)  # as other names
    assert found.fingerprint != load_tokenizer(DEMO, fast="off").fingerprint

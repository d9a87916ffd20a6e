from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends import hybrid as hybrid_module
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import VARIABLE, HybridTokenizer
from streamdec.encoding import Special
from streamdec.errors import StreamdecWarning, TokenizerLibraryError
from streamdec.fastpath import _probes
from streamdec.fastpath._fastokens import FastEncoder
from streamdec.hooks import FellBack
from streamdec.tokenizers.tokenizer_report import FastMode
from tests.hooks.recording import recording
from tests.support.pages import printed_by
from tests.support.zoo import ZOO, shared_tokenizers

NO_FASTOKENS = "fastokens (extra fast, which the extra test installs) is not there"
HAS_FASTOKENS = find_spec("fastokens") is not None
needs_fastokens = pytest.mark.skipif(not HAS_FASTOKENS, reason=NO_FASTOKENS)

PIECES = ["the", " quick", "Größe", "你好", "😀👍🏽", "\n\t", "don't", "<eos>", "<e", "<think>"]
PIECES += ["  ", "12345", "\u180e", "'re", "e\u0301", "\x00", "ü", "\u2460", "<|im_end|>", "</s>"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join)


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture(autouse=True)
def _short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long probes take most of the time of a comparison; test_probes.py counts their letters."""
    monkeypatch.setattr(_probes, "_LONG", 2_000)


def byte_level(**changes: Any) -> str:
    """A trained byte-level BPE; ``changes`` are of its JSON."""
    return json.dumps({**json.loads(ZOO["byte_level_trained"]().to_str()), **changes})


hybrid = cache(lambda: HybridTokenizer(byte_level(), fast="now"))
slow = cache(lambda: HuggingFaceTokenizer(byte_level()))


@needs_fastokens
@given(TEXTS, st.booleans(), st.sampled_from(["parse", "text"]))
def test_ids_are_those_of_the_slow_encoder(text: str, add: bool, special: Special) -> None:
    assert hybrid().report.active == "fastokens"
    found = hybrid().encode(text, add_special_tokens=add, special=special)
    assert found == slow().encode(text, add_special_tokens=add, special=special)
    assert found.offsets == slow().encode(text, add_special_tokens=add, special=special).offsets
    assert hybrid().decode(found.ids) == slow().decode(found.ids)


@needs_fastokens
def test_ids_that_the_library_assigned_are_those_of_the_fast_encoder() -> None:
    """The file declares another one: there is a hole before it."""
    [last] = json.loads(byte_level())["added_tokens"][-1:]
    far = last | {"id": last["id"] + 50, "content": "<far>"}
    file = byte_level(added_tokens=[*json.loads(byte_level())["added_tokens"], far])
    with pytest.warns(StreamdecWarning, match=f"'<far>' is {last['id'] + 1}, not {far['id']}"):
        tokenizer = HybridTokenizer(file, fast="now")
    assert tokenizer.report.active == "fastokens"
    assert tokenizer.encode("<far>").ids == (last["id"] + 1,)


@needs_fastokens
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]
)
def test_ids_of_real_files_are_those_of_the_slow_encoder(path: Path) -> None:
    ours = HybridTokenizer(path, fast="now")
    if ours.report.active != "fastokens":
        return
    theirs = HuggingFaceTokenizer(path)

    @given(TEXTS)
    def alike(text: str) -> None:
        more: list[dict[str, Any]] = [{}, {"add_special_tokens": True}, {"special": "text"}]
        for options in more:
            assert ours.encode(text, **options) == theirs.encode(text, **options)

    alike()


@needs_fastokens
@pytest.mark.parametrize(
    ("argument", "environment", "requested"),
    [
        (None, None, "background"),
        ("background", "off", "background"),
        ("off", "now", "off"),
        (None, "Off", "off"),
        (None, " now", "now"),
        (None, " ", "background"),
    ],
)
def test_the_argument_comes_before_the_environment(
    argument: FastMode | None,
    environment: str | None,
    requested: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if environment is not None:
        monkeypatch.setenv(VARIABLE, environment)
    with recording() as told:
        tokenizer = HybridTokenizer(byte_level(), fast=argument)
        report = tokenizer.report
        tokenizer.encode("the")
    assert told.fallbacks == []
    assert [call.tokenizer_type for call in told.calls] == [report.active]
    assert report.requested == requested
    assert report.active == ("fastokens" if requested == "now" else "huggingface")


# --- trust ----------------------------------------------------------------------------------------

REGEX: dict[str, Any] = {"type": "Split", "behavior": "Isolated", "invert": False}
REGEX["pattern"] = {"Regex": r"\w+|\b"}


@pytest.mark.parametrize(
    ("pre_tokenizer", "reason", "fast"),
    [
        (REGEX, "read this regex in different ways", "background"),
        ({"type": "WhitespaceSplit"}, "cannot load", "now"),
    ],
)
@needs_fastokens
def test_untrusted_files_are_encoded_slowly_with_a_reason(
    pre_tokenizer: dict[str, Any], reason: str, fast: FastMode, caplog: pytest.LogCaptureFixture
) -> None:
    """The tests of the probes have more reasons."""
    file = byte_level(pre_tokenizer=pre_tokenizer)
    caplog.set_level(logging.INFO, "streamdec")
    with recording() as told:
        tokenizer = HybridTokenizer(file, fast=fast)
        tokenizer.wait()
        copied = pickle.loads(pickle.dumps(tokenizer))
    assert copied.report == tokenizer.report
    assert tokenizer.report.active == "huggingface"
    assert told.fallbacks == [FellBack("huggingface", "refused")]
    assert reason in tokenizer.report.reason
    [record] = caplog.records
    assert record.levelno == logging.INFO
    assert reason in record.getMessage()


LIES: dict[str, Callable[[bytes, str, dict[str, Any]], bytes]] = {
    "some texts": lambda ids, text, _: b"" if "Größe" in text else ids,
    "around a text": lambda ids, _, mode: ids + bytes(4 * mode["add_special_tokens"]),
    "special tokens as text": lambda ids, _, mode: ids + bytes(4 * (mode["special"] == "text")),
    "guarded letters": lambda ids, text, _: b"" if "\u180e" in text else ids,
}


def lie(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    honest = FastEncoder.ids

    def lying(self: FastEncoder, texts: list[str], special: Special, **mode: Any) -> list[bytes]:
        found = zip(texts, honest(self, texts, special, **mode), strict=True)
        return [LIES[way](ids, text, {"special": special} | mode) for text, ids in found]

    monkeypatch.setattr(FastEncoder, "ids", lying)


@pytest.mark.parametrize("way", LIES)
@needs_fastokens
def test_other_ids_disable_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe cannot tell where U+180E matters, so no text with it is encoded fast."""
    lie(monkeypatch, way)
    tokenizer = HybridTokenizer(byte_level(), fast="now")
    report = tokenizer.report
    if way == "guarded letters":
        assert report.active == "fastokens"
    else:
        assert report.active == "huggingface"
        assert "fastokens gives other ids for" in report.reason
    for text in ("Größe", "the", "a\u180eb"):
        assert tokenizer.encode(text) == slow().encode(text)
        assert tokenizer.encode_batch([text, "x"]) == slow().encode_batch([text, "x"])


@needs_fastokens
def test_a_later_failure_drops_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = HybridTokenizer(byte_level(), fast="now")

    def failing(*_: Any, **__: Any) -> list[bytes]:
        raise TokenizerLibraryError("no more threads")

    monkeypatch.setattr(FastEncoder, "ids", failing)
    with recording() as told:
        assert tokenizer.encode("the quick") == slow().encode("the quick")
    assert told.fallbacks == [FellBack("huggingface", "fails")]
    assert [call.tokenizer_type for call in told.calls[:1]] == ["fastokens"]
    assert "no more threads" in caplog.text
    tokenizer = HybridTokenizer(byte_level(), fast="now")  # it fails on a probe
    assert str(tokenizer.report).endswith("fastokens could not be compared: no more threads")
    assert tokenizer.encode("the") == slow().encode("the")


def test_without_fastokens_the_slow_encoder_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    caplog.set_level(logging.INFO, "streamdec")
    with recording() as told:
        assert "pip install" in HybridTokenizer(byte_level()).report.reason  # without a thread
    assert told.fallbacks == [FellBack("huggingface", "missing")]
    assert [record.levelno for record in caplog.records] == [logging.INFO]
    tokenizer = HybridTokenizer(byte_level(), fast="now")
    assert tokenizer.report.active == "huggingface"
    assert "pip install 'streamdec[fast]'" in tokenizer.report.reason
    assert tokenizer.encode("the") == slow().encode("the")


# --- when it is built -----------------------------------------------------------------------------


@pytest.fixture
def may_go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, fastokens is not built."""
    event = threading.Event()
    honest = FastEncoder.__init__

    def waiting(self: FastEncoder, text: str) -> None:
        assert event.wait(60)
        honest(self, text)

    monkeypatch.setattr(FastEncoder, "__init__", waiting)
    yield event
    event.set()


@needs_fastokens
@pytest.mark.usefixtures("may_go_on")
def test_a_fork_before_the_build_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = HybridTokenizer(byte_level())
    with pytest.raises(TimeoutError):
        tokenizer.wait(0.01)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert tokenizer.wait().reason == "the process was forked before fastokens was ready"
    assert tokenizer.encode("the quick") == slow().encode("the quick")


@needs_fastokens
def test_the_slow_encoder_is_used_until_the_background_build_is_ready(
    may_go_on: threading.Event,
) -> None:
    tokenizer = HybridTokenizer(byte_level(), fast="background")
    with pytest.raises(TimeoutError, match="is being built and compared in the background"):
        tokenizer.wait(0.01)
    assert tokenizer.report.active == "huggingface"
    assert tokenizer.encode("the quick") == slow().encode("the quick")
    copied = pickle.dumps(tokenizer)
    may_go_on.set()
    assert tokenizer.wait(60).active == "fastokens"
    assert tokenizer.wait(60) is tokenizer.report
    assert tokenizer.encode("the quick") == slow().encode("the quick")
    assert pickle.loads(copied).wait(60).active == "fastokens"


@needs_fastokens
def test_the_build_begins_when_enough_text_was_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid_module, "WORTH", 1_000)
    tokenizer = HybridTokenizer(byte_level())
    for text in ("the " * 100, "quick " * 99):
        tokenizer.encode(text)
        assert tokenizer.report.reason.startswith("fastokens is built in the background after")
        assert not tokenizer._settled.is_set()
    tokenizer.encode_batch(["a", "the fox"])
    assert tokenizer._settled.wait(60)
    assert tokenizer.report.active == "fastokens"
    assert tokenizer.encode("the quick") == slow().encode("the quick")


def test_loading_and_a_short_text_do_not_import_fastokens() -> None:
    program = (
        "import sys\n"
        "from streamdec import load_tokenizer\n"
        "load_tokenizer('demo').encode('the quick')\n"
        "print('fastokens' in sys.modules)\n"
    )
    assert printed_by(program) == ["False"]


ENDING = """
import threading
from streamdec.backends import hybrid
from streamdec.fastpath import _fastokens, _probes
probes = _probes.probes_of
def slowly(tokenizer):
    threading.main_thread().join()
    return probes(tokenizer)
def compared(*_, **__):
    print('it continues')
_probes.probes_of = slowly
_fastokens.FastEncoder.ids = compared
hybrid.WORTH = 1
print(hybrid.HybridTokenizer({path!r}).encode('the').ids)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@needs_fastokens
def test_a_process_that_ends_does_not_wait_for_all_of_it(tmp_path: Path) -> None:
    """Its thread is not a daemon: one that is killed inside a library would abort the process."""
    (tmp_path / "tokenizer.json").write_text(byte_level(), "utf-8")
    assert printed_by(ENDING.format(path=str(tmp_path))) == [str(slow().encode("the").ids)]


OUTLIVING = """
import threading
from streamdec.backends.hybrid import HybridTokenizer
def load():
    threading.main_thread().join()
    print(HybridTokenizer({path!r}, fast='now').report.active)
threading.Thread(target=load).start()
"""


@needs_fastokens
def test_a_thread_that_outlives_the_main_one_can_load(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(byte_level(), "utf-8")
    assert printed_by(OUTLIVING.format(path=str(tmp_path))) == ["fastokens"]


@needs_fastokens
def test_an_error_to_start_a_thread_is_not_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when there are too many, or when the interpreter is about to end."""

    def failing(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", failing)
    caplog.set_level(logging.INFO, "streamdec")
    other = HybridTokenizer(byte_level())
    assert "can't start new thread" in other.wait(0).reason
    assert "can't start new thread" in caplog.text
    assert other.encode("the") == slow().encode("the")

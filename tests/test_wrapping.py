"""A tokenizer of ``tokenizers`` or transformers is wrapped once, wherever one is accepted."""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import AddedToken, Tokenizer

from streamdec import (
    DecoderPool,
    DecodeStream,
    HuggingFaceTokenizer,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
)
from streamdec import Sequence as TextSequence
from streamdec.bulk import decode_arrow, decode_rollouts
from streamdec.core.shared_tables import tokenizer_for
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.testing.subjects import subject_of
from tests.support.wrappers import Decoding
from tests.support.zoo import TEXT, UNCOMPILED, ZOO

ALL: dict[str, Any] = {"skip_special_tokens": False}
"""The options with which a stream has all text."""


class Fast:
    """A fast tokenizer of transformers."""

    is_fast = True

    def __init__(self, backend: Tokenizer) -> None:
        self.backend_tokenizer = backend

    def decode(
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        text: str = self.backend_tokenizer.decode(
            token_ids, skip_special_tokens=skip_special_tokens
        )
        return text.replace(" .", ".") if clean_up_tokenization_spaces is not False else text


Read = Callable[[Any, list[int]], tuple[Any, str]]
"""From a tokenizer and ids: the tokenizer that decoded, and the text."""


def _fed(kind: Any, tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    decoder = kind(tokenizer, **ALL)
    given = decoder.feed(ids)
    return decoder.tokenizer, getattr(given, "text", given) + decoder.pending_text


def _restored(kind: Any, tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    made = kind(HuggingFaceTokenizer(getattr(tokenizer, "backend_tokenizer", tokenizer)), **ALL)
    half = len(ids) // 2
    first = made.feed(ids[:half])
    restored = kind.restore(tokenizer, made.snapshot())
    last = restored.feed(ids[half:])
    text = "".join(getattr(given, "text", given) for given in (first, last))
    return restored.tokenizer, text + restored.pending_text


def _pool(tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    pool = DecoderPool(tokenizer)
    pool.add("a", **ALL)
    pool.adopt("b", StopSequenceDecoder(tokenizer, **ALL))
    texts = [chunk.text for chunk in pool.step({"a": ids, "b": ids}).values()]
    texts = [text + pool.finish(name).text for name, text in zip("ab", texts, strict=True)]
    assert texts[0] == texts[1]
    return pool.tokenizer, texts[0]


def _rollouts(tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    (rollout,) = decode_rollouts([ids], tokenizer, StopConditions("\0never"), **ALL)
    return None, rollout.text


def _arrow(tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    (text,) = decode_arrow(pa.array([ids]), tokenizer, **ALL).to_pylist()
    return None, text


def _logprobs(tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    tracker = LogprobTracker(StopSequenceDecoder(tokenizer, **ALL))
    tracker.put(TokenLogprob(each, -1.0) for each in ids)
    tracker.feed(ids)
    tracker.flush()
    placed = tracker.take()
    return tracker.tokenizer, b"".join(each.data or b"" for each in placed).decode(
        "utf-8", "replace"
    )


def _subject(tokenizer: Any, ids: list[int]) -> tuple[Any, str]:
    known = subject_of("a", tokenizer).tokenizer
    return known, known.decode(ids, **ALL)


DECODERS = (DecodeStream, StopSequenceDecoder, TextSequence)
ENTRIES: dict[str, Read] = {
    **{f"{kind.__name__}": partial(_fed, kind) for kind in DECODERS},
    **{f"{kind.__name__}.restore": partial(_restored, kind) for kind in DECODERS},
    **{read.__name__[1:]: read for read in (_pool, _rollouts, _arrow, _logprobs, _subject)},
}
"""All that does not hand the tokenizer on to one of these."""


@pytest.fixture
def is_quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged."""
    yield
    assert caplog.records == []


@pytest.mark.usefixtures("is_quiet")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("given", [lambda it: it, Fast], ids=["tokenizers", "transformers"])
@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_point_wraps_it(name: str, given: Callable[[Tokenizer], Any]) -> None:
    library = ZOO["byte_level_trained"]()
    tokenizer, ids = given(library), library.encode(f"{TEXT} .").ids
    decoded_by, text = ENTRIES[name](tokenizer, ids)
    assert text == library.decode(ids, skip_special_tokens=False)
    if decoded_by is not None:
        assert decoded_by is tokenizer_for(tokenizer)
    assert DecodeStream(tokenizer).route == "bytes"


def test_the_tokenizer_of_a_processor_is_wrapped_and_no_others() -> None:
    library = ZOO["byte_level_trained"]()
    fast = Fast(library)
    attributes = {"tokenizer": fast, "decode": fast.decode}
    assert tokenizer_for(type("ProcessorMixin", (), attributes)()) is tokenizer_for(library)
    other = SimpleNamespace(**attributes)
    assert tokenizer_for(other) is other


def test_threads_wrap_an_object_once() -> None:
    library = ZOO["byte_level_trained"]()
    barrier = threading.Barrier(8)

    def wrapped(_: int) -> Any:
        barrier.wait()
        return DecodeStream(library).tokenizer

    with ThreadPoolExecutor(8) as pool:
        assert len({*map(id, [*pool.map(wrapped, range(8))])}) == 1


def test_a_wrapped_object_is_freed_and_can_be_copied() -> None:
    library = ZOO["byte_level_trained"]()
    fast, wrapper = Fast(library), weakref.ref(tokenizer_for(library))
    assert tokenizer_for(fast) is wrapper()
    for copied in (copy.deepcopy(library), pickle.loads(pickle.dumps(library))):
        assert copied.to_str() == library.to_str()
        assert tokenizer_for(copied) is not wrapper()
    decoder = pickle.loads(pickle.dumps(DecodeStream(fast)))
    assert decoder.feed(library.encode("Größe").ids) == "Größe"
    if not gc.is_tracked(library):
        pytest.skip("this release of tokenizers tells the garbage collector nothing")
    del library, fast, copied
    gc.collect()
    assert wrapper() is None


@pytest.mark.parametrize("name", ["byte_level", "wordpiece", "byte_fallback_strip", "ctc"])
@pytest.mark.parametrize("is_special", [True, False])
def test_tokens_that_are_added_between_streams_are_known(name: str, is_special: bool) -> None:
    library = ZOO[name]()
    before = DecodeStream(library).tokenizer
    library.add_tokens([AddedToken("<new>", normalized=False, special=is_special)])
    token_id = library.token_to_id("<new>")
    assert token_id is not None
    assert before is not DecodeStream(library).tokenizer
    assert DecodeStream(Fast(library)).tokenizer is DecodeStream(library).tokenizer
    decoder = DecodeStream(library, skip_special_tokens=False)
    assert decoder.step(token_id) + decoder.flush() == library.decode(
        [token_id], skip_special_tokens=False
    )
    assert DecodeStream(library).step(token_id) == library.decode([token_id])


class Own(Fast):
    """A class with a ``decode`` of its own."""

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:  # type: ignore[override]
        return super().decode(token_ids, options["skip_special_tokens"], False).upper()


class Joining(Fast):
    """A class whose ``decode`` joins equal ids, as one of CTC does."""

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:  # type: ignore[override]
        joined = [token_id for token_id, _ in groupby(token_ids)]
        return super().decode(joined, options["skip_special_tokens"], False)


@pytest.mark.parametrize("kind", [Own, Joining])
def test_a_class_with_its_own_decode_keeps_it(kind: type[Fast]) -> None:
    library = ZOO["byte_level_trained"]()
    own, ids = kind(library), library.encode("one two").ids
    ids.append(ids[-1])
    decoder = DecodeStream(own)
    assert (decoder.route, decoder.tokenizer) == ("window", own)
    assert decoder.feed(ids) == own.decode(ids, skip_special_tokens=True)
    assert DecodeStream(library).route == "bytes"


def test_a_tokenizer_with_rules_is_used_as_it_is() -> None:
    tokenizer: Any = MockTokenizer()
    tokenizer.backend_tokenizer = ZOO["byte_level"]()
    assert DecodeStream(tokenizer).tokenizer is tokenizer
    assert DecodeStream(tokenizer).step(1) == "Hello"


@pytest.mark.parametrize("wrong", [Tokenizer, Fast, None, AddedToken("x"), SimpleNamespace()])
def test_what_is_no_tokenizer_is_an_error(wrong: Any) -> None:
    assert tokenizer_for(wrong) is wrong
    for make in (DecodeStream, StopSequenceDecoder, TextSequence, DecoderPool):
        with pytest.raises(TypeError, match="a tokenizer must"):
            make(wrong)


@pytest.mark.parametrize(
    "make", [lambda: Decoding(str), lambda: Own(ZOO["wordpiece"]())], ids=["slow", "own"]
)
def test_an_object_with_only_decode_is_logged_once(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = make()
    for _ in range(3):
        assert DecodeStream(tokenizer).route == "window"
        DecoderPool(tokenizer).add("a")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("streamdec", logging.WARNING)
    assert record.getMessage() == (
        f"{tokenizer!r:.80} has no known rules: its streams decode a window of ids"
    )
    DecodeStream(make())
    assert len(caplog.records) == 2


@pytest.mark.parametrize("name", [*UNCOMPILED])
def test_a_decoder_without_rules_is_logged_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = UNCOMPILED[name]()
    for given in (library, Fast(library), HuggingFaceTokenizer(library)):
        assert DecodeStream(given).route == "window"
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2

"""The wire formats without a network: events, objects, bytes, sections, counts, refusals."""

from __future__ import annotations

import json
import re
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec import Chunk, FinishedError, FinishReason, MockTokenizer, iter_chunks
from streamdec.chunks import joined
from streamdec.integrations import anthropic, openai, sse
from streamdec.integrations.logprobs import Alternative, PlacedLogprob

HEAD: Any = {"response_id": "r", "model": "m", "created": 0}
MESSAGE: Any = {"response_id": "msg_1", "model": "m", "input_tokens": 2}
LOGPROBS = [PlacedLogprob(7, "\\xf0", b"\xf0", -0.5, 3, (Alternative("a", b"a", -0.1),))]
CHATS = [openai.ChatCompletionEncoder, openai.CompletionEncoder]
WHOLE = [openai.ChatResponse, openai.CompletionResponse]
ENCODERS: list[Any] = [
    *(partial(kind, **HEAD) for kind in CHATS),
    partial(anthropic.MessageEncoder, **MESSAGE),
]
TAKERS = [
    *ENCODERS,
    *(partial(kind, **HEAD, prompt_tokens=2) for kind in WHOLE),
    partial(anthropic.MessageResponse, **MESSAGE),
]

TOKENS = [b"<think>", b"Hm", b" .</think>Hi", b"!", b"\0", b"</think>", b"<answer>"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
SECTIONS = {"reasoning": ("<think>", "</think>"), "answer": ("<answer>", "</think>")}
IDS = st.lists(st.sampled_from(range(len(TOKENS))), max_size=12)
NASTY = {"response_id": "\0", "model": '"content":"","text":"\ud800\u2028\u2029\x85\r\n"\\u0000"'}
"""Fields that look like the places of text, or like ends of lines."""


def chunks_of(ids: list[int]) -> list[Chunk]:
    return [*iter_chunks(ids, TOKENIZER, sections=SECTIONS, return_token_ids=True)]


def objects_in(stream: bytes) -> list[Any]:
    """The JSON of each event, which is one line in the eyes of any reader."""
    events = stream.decode().split("\n\n")
    assert events.pop() == ""
    assert all(len(event.splitlines()) == event.count("\n") + 1 for event in events)
    found = []
    for *names, data in (event.split("\n") for event in events if event != "data: [DONE]"):
        found.append(json.loads(data.removeprefix("data: ")))
        assert names in ([], [f"event: {found[-1].get('type')}"])
        assert bool(names) == ("type" in found[-1])
    return found


# --- the objects ----------------------------------------------------------------------------------


def test_the_objects_of_a_chat() -> None:
    wire = openai.ChatCompletionEncoder(**HEAD, include_usage=True, prompt_tokens=2)
    found = [*wire.start(), *wire.step(Chunk("Hello", token_ids=(1,)))]
    found += wire.step(Chunk(" world", "stop", "\nUser:"), num_tokens=3)
    head = {"id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    plain = {"index": 0, "logprobs": None, "finish_reason": None}
    end = {"finish_reason": "stop", "stop_reason": "\nUser:"}
    choices = [
        {**plain, "delta": {"role": "assistant", "content": ""}},
        {**plain, "delta": {"content": "Hello"}},
        {**plain, "delta": {"content": " world"}},
        {**plain, "delta": {}, **end},
    ]
    assert found == [{**head, "choices": [each], "usage": None} for each in choices]
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert wire.flush() == [{**head, "choices": [], "usage": usage}]
    whole = openai.ChatResponse(**HEAD, prompt_tokens=2)
    whole.step(Chunk("Hello", "stop", "\nUser:"), num_tokens=3, logprobs=LOGPROBS)
    token = {"token": "\\xf0", "logprob": -0.5, "bytes": [0xF0]}
    top = [{"token": "a", "logprob": -0.1, "bytes": [97]}]
    logprobs = {"content": [{**token, "top_logprobs": top}], "refusal": None}
    message = {"role": "assistant", "content": "Hello", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": logprobs, **end}
    head["object"] = "chat.completion"
    assert whole.body() == {**head, "choices": [choice], "usage": usage}


def test_the_objects_of_a_completion() -> None:
    wire, whole = openai.CompletionEncoder(**HEAD), openai.CompletionResponse(**HEAD)
    found = wire.step(Chunk("Hello", "length"), logprobs=LOGPROBS)
    whole.step(Chunk("Hello", "length"), logprobs=LOGPROBS)
    head = {"id": "r", "object": "text_completion", "created": 0, "model": "m"}
    logprobs = {
        "tokens": ["bytes:\\xf0"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"a": -0.1, "bytes:\\xf0": -0.5}],  # with the chosen one
        "text_offset": [3],
    }
    hello, end = {"index": 0, "text": "Hello"}, {"finish_reason": "length", "stop_reason": None}
    assert found == [
        {**head, "choices": [{**hello, "logprobs": logprobs, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "text": "", "logprobs": None, **end}]},
    ]
    assert wire.flush() == []
    assert whole.body() == {**head, "choices": [{**hello, "logprobs": logprobs, **end}]}


def test_the_events_of_a_message() -> None:
    wire = anthropic.MessageEncoder(**MESSAGE, stop_sequences=["\nUser:"])
    found = [*wire.step(Chunk("Hi")), *wire.step(Chunk("!", "stop", "\nUser:"), num_tokens=3)]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    begun = {"stop_reason": None, "stop_sequence": None}
    end: dict[str, Any] = {"stop_reason": "stop_sequence", "stop_sequence": "\nUser:"}
    usage = {"input_tokens": 2, "output_tokens": 0}
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": text} for text in ("Hi", "!")]
    assert found + wire.flush() == [
        {"type": "message_start", "message": {**message, "content": [], **begun, "usage": usage}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {**usage, "output_tokens": 3}},
        {"type": "message_stop"},
    ]
    whole = anthropic.MessageResponse(**MESSAGE, stop_sequences=["x"])
    whole.step(Chunk("Hi!", "stop", "\nUser:"), num_tokens=3)
    content = [{"type": "text", "text": "Hi!"}]
    usage["output_tokens"] = 3
    end = {"stop_reason": "end_turn", "stop_sequence": None}  # the stop is not the client's
    assert whole.body() == {**message, "content": content, **end, "usage": usage}


# --- the law --------------------------------------------------------------------------------------

OPENAI = {"stop": "stop", "length": "length", "content_filter": "content_filter"}
ANTHROPIC = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
FAILURES = {"abort": "abort", "error": "error"}
FORMATS: dict[str, tuple[Any, Any, dict[str, str]]] = {
    "chat": (openai.ChatCompletionEncoder, openai.ChatResponse, OPENAI),
    "completion": (openai.CompletionEncoder, openai.CompletionResponse, OPENAI),
    "message": (anthropic.MessageEncoder, anthropic.MessageResponse, ANTHROPIC),
}
"""The classes of each format, and its words for the finish reasons that are not failures."""
Parts = list[tuple[str, str]]


def runs(parts: Parts) -> Parts:
    """The parts with text, with neighbours of one kind joined."""
    found: Parts = []
    for kind, text in parts:
        if found and found[-1][0] == kind:
            found[-1] = kind, found[-1][1] + text
        elif text:
            found.append((kind, text))
    return found


class Read(NamedTuple):
    """What a client has of a response in the end."""

    parts: list[Parts]
    """Of each sample: texts of the kind "text" or "reasoning", in order."""
    ends: list[str | None]
    token_ids: list[list[int]]
    num_tokens: int | None
    error: str | None


def read_openai(objects: list[Any], n: int) -> Read:
    """Read the objects of a stream as clients do; or the only object of a whole answer."""
    parts: list[Parts] = [[] for _ in range(n)]
    token_ids: list[list[int]] = [[] for _ in range(n)]
    ends: list[str | None] = [None] * n
    num_tokens, error = None, None
    for each in objects:
        error = error or each.get("error", {}).get("code")
        num_tokens = (each.get("usage") or {}).get("completion_tokens", num_tokens)
        for choice in each.get("choices", ()):
            index = choice["index"]
            assert ends[index] is None, "nothing follows the end of a sample"
            ends[index] = choice["finish_reason"]
            assert ends[index] is None or not choice.get("delta"), "clients drop such text"
            token_ids[index] += choice.get("token_ids", [])
            new = choice.get("delta", choice.get("message", {"content": choice.get("text")}))
            assert new.get("reasoning") == new.get("reasoning_content")
            names = {"reasoning": "reasoning", "text": "content"}
            parts[index] += [(kind, new.get(name) or "") for kind, name in names.items()]
    return Read([*map(runs, parts)], ends, token_ids, num_tokens, error)


def read_anthropic(events: list[Any], _: int) -> Read:
    """Read the events of a stream, which must be in the order of the API; or a whole message."""
    blocks: list[Any] = []
    last: Any = {"usage": {}}
    is_open, error = False, None
    for each in events:
        if each["type"] == "content_block_start":
            assert not is_open
            assert each["index"] == len(blocks)
            blocks.append(each["content_block"])
            is_open = True
        elif each["type"].startswith("content_block"):
            assert is_open
            assert each["index"] == len(blocks) - 1
            is_open = each["type"] != "content_block_stop"
            for key in ("text", "thinking", "signature"):
                blocks[-1][key] = blocks[-1].get(key, "") + each.get("delta", {}).get(key, "")
        elif each["type"] == "message_delta":
            last = {**each, **each["delta"]}
        elif each["type"] == "message":
            last, blocks = each, each["content"]
        elif each["type"] == "error":
            error = "error"
    assert error or (blocks and not is_open)
    assert len(blocks) == 1 or all(each[each["type"]] for each in blocks)  # the API refuses others
    for each in blocks[: len(blocks) - is_open]:
        assert each.get("signature", "") == ("\0" if each["type"] == "thinking" else "")
    kinds = {"thinking": "reasoning", "text": "text"}
    parts = runs([(kinds[each["type"]], each[each["type"]]) for each in blocks])
    return Read([parts], [last.get("stop_reason")], [[]], last["usage"].get("output_tokens"), error)


@st.composite
def samples(draw: st.DrawFn) -> list[Chunk]:
    """The chunks of a stream with sections, some of them joined, and any end."""
    texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=4)
    chunks = [*chunks_of(draw(IDS))[:-1], *map(Chunk, draw(texts))]
    found = []
    while chunks:
        size = draw(st.integers(1, 5))
        found.append(joined(*chunks[:size]))
        chunks = chunks[size:]
    reason = draw(st.sampled_from(get_args(FinishReason)))
    stop = draw(st.sampled_from([None, 7])) if reason == "stop" else None
    return [*found, Chunk(draw(st.sampled_from(["", "x"])), reason, stop, token_ids=(9,))]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_each_finish_reason_has_its_word(name: str, reason: FinishReason) -> None:
    """A new member of FinishReason fails until the tables above, and the format, have it."""
    encoder, response, words = FORMATS[name]
    options, read = (MESSAGE, read_anthropic) if name == "message" else (HEAD, read_openai)
    one, whole = encoder(**options), response(**options)
    objects = one.step(Chunk("", reason), num_tokens=1) + one.flush()
    whole.step(Chunk("", reason), num_tokens=1)
    error = None if reason in words else "error" if name == "message" else FAILURES[reason]
    for found in (read(objects, 1), read([whole.body()], 1)):
        assert (found.ends, found.error) == ([words.get(reason)], error)


@given(
    answer=st.lists(samples(), min_size=1, max_size=2),
    name=st.sampled_from(sorted(FORMATS)),
    logprobs=st.sampled_from([(), None, LOGPROBS]),
    flags=st.tuples(st.booleans(), st.booleans()),
)
@example([chunks_of([3, 3, 0, 1, 1, 5, 3, 3])], "message", (), (False, False))
@example(
    [[Chunk(), *chunks_of([0, 1])[:-1], Chunk(), Chunk("", "stop")]], "message", (), (False, False)
)
@example([[Chunk("", "abort", token_ids=(9,))]], "chat", (), (True, False))
@example([[Chunk("x", "length", token_ids=(9,))]], "chat", LOGPROBS, (True, True))
def test_clients_read_the_text_and_the_end_of_each_sample(
    answer: list[list[Chunk]], name: str, logprobs: Any, flags: tuple[bool, bool]
) -> None:
    """In each format, streamed and whole. The streamed bytes are those of the objects."""
    encoder, response, words = FORMATS[name]
    if name == "message":
        answer, options, streamed = answer[:1], MESSAGE | NASTY, {}
        read: Any = read_anthropic
    else:
        options = HEAD | NASTY | {"n": len(answer), "prompt_tokens": 3}
        options, streamed = options | {"return_token_ids": flags[0]}, {"include_usage": flags[1]}
        read = read_openai
    one, other = (encoder(**options, **streamed) for _ in "12")
    whole = response(**options)
    objects, stream = one.start(), other.start_bytes()
    assert not any("token_ids" in each for event in objects for each in event.get("choices", ()))
    for index, chunks in enumerate(answer):
        for number, chunk in enumerate(chunks):
            details: Any = {"num_tokens": number, "logprobs": logprobs}
            objects += one.step(chunk, index, **details)
            stream += other.step_bytes(chunk, index, **details)
            whole.step(chunk, index, **details)
    objects += one.flush()
    stream += other.flush_bytes()
    assert objects_in(stream) == objects
    assert stream.endswith(openai.DONE) == (name != "message")

    separates = name != "completion"
    parts = [
        runs(
            [
                ("reasoning" if separates and each.section == "reasoning" else "text", each.text)
                for chunk in chunks
                for each in chunk.split()
            ]
        )
        for chunks in answer
    ]
    reasons = [str(chunks[-1].finish_reason) for chunks in answer]
    failures = {FAILURES[reason] for reason in reasons if reason not in words}
    failure = "error" if name == "message" or "error" in failures else "abort"
    ids = [[each for chunk in chunks for each in chunk.token_ids] for chunks in answer]
    wanted = Read(
        parts,
        [words.get(reason) for reason in reasons],
        ids if options.get("return_token_ids") else [[]] * len(answer),
        sum(len(chunks) - 1 for chunks in answer),
        failure if failures else None,
    )
    has_usage = not failures and streamed.get("include_usage", True)
    found = read(objects, len(answer))
    assert found == wanted._replace(num_tokens=wanted.num_tokens if has_usage else None)
    assert one.failed == whole.failed == bool(failures)
    if failures:
        assert read([whole.body()], len(answer)).error == failure
        return
    if name == "chat":  # whole, the reasoning comes first
        parts = [runs(sorted(each, key=itemgetter(0))) for each in parts]
    assert read([whole.body()], len(answer)) == wanted._replace(parts=parts)


# --- counts and ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", TAKERS, ids=lambda make: str(make.func.__name__))
def test_without_their_number_the_token_ids_of_chunks_are_counted(make: Any) -> None:
    chunks = [Chunk("a", token_ids=(5, 6)), Chunk("b", token_ids=(6,))]
    chunks += [Chunk("", "length", token_ids=(7,))]
    usage: Any = {} if "input_tokens" in make.keywords else {"prompt_tokens": 2}
    if make.func in CHATS:
        usage["include_usage"] = True
    taker = make(**usage)
    for chunk in chunks:
        getattr(taker, "step_bytes", taker.step)(chunk)
    last = taker.body() if hasattr(taker, "body") else taker.flush()[-2:][0]
    counts = last["usage"]
    assert counts.get("completion_tokens", counts.get("output_tokens")) == 4


def test_a_usage_needs_counts_and_a_rejected_call_changes_nothing() -> None:
    options: Any = {**HEAD, "prompt_tokens": 3}
    for wire in (
        openai.ChatCompletionEncoder(**options, include_usage=True),
        openai.ChatResponse(**options),
        anthropic.MessageEncoder(**MESSAGE),
    ):
        with pytest.raises(ValueError, match="num_tokens"):
            wire.step(Chunk("b", "stop"))
        found: Any = wire.step(Chunk("a", "stop"), num_tokens=1)
        if isinstance(wire, openai.ChatCompletionEncoder):
            roles = [each["choices"][0]["delta"].get("role") for each in found]
            assert roles == ["assistant", None, None]
    with pytest.raises(ValueError, match="prompt_tokens"):
        openai.ChatCompletionEncoder(**HEAD, include_usage=True)


@pytest.mark.parametrize("wire", [openai.ChatResponse(**HEAD), *(make() for make in ENCODERS)])
def test_wrong_calls_are_refused(wire: Any) -> None:
    """An event for another sample, after the end, or an end before all samples ended."""
    steps: list[Any] = [wire.step, *([wire.step_bytes] if hasattr(wire, "step_bytes") else [])]
    end: Any = wire.flush if hasattr(wire, "flush") else wire.body
    for _ in "before", "after some text":
        for step in steps:
            with pytest.raises(ValueError, match="index must be from 0 to 0, not 1"):
                step(Chunk("a"), 1)
            for wrong in ("Hi", None):
                told = re.escape(f"chunk must be a Chunk, not {wrong!r}; write Chunk")
                with pytest.raises(TypeError, match=f"^{told}"):
                    step(wrong, num_tokens=2)
        with pytest.raises(
            ValueError, match=r"samples \[0\] have not ended; if they failed, step Chunk"
        ):
            end()
        steps[-1](Chunk("a"))
    steps[0](Chunk("a", "length"), num_tokens=1)
    for step in steps:
        with pytest.raises(FinishedError, match="sample 0 has ended"):
            step(Chunk("a"))


def test_a_response_can_fail_with_a_message_of_the_caller() -> None:
    wire = openai.ChatCompletionEncoder(**HEAD)
    assert wire.fail_bytes("full").startswith(b'data: {"error":{"message":"full"')
    assert wire.fail_bytes().endswith(openai.DONE)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options", "error", "told"),
    [
        *((openai.CompletionEncoder, {"n": n}, ValueError, "n must be") for n in (0, True)),
        (openai.CompletionEncoder, {"prompt_tokens": -1}, ValueError, "prompt_tokens must be"),
        *(
            (openai.ChatResponse, {"created": created}, ValueError, "created must be")
            for created in (1.5, None, "now")
        ),
        (openai.ChatCompletionEncoder, {"response_id": 5}, TypeError, "response_id must be a str"),
        (openai.CompletionEncoder, {"model": None}, TypeError, "model must be a string, not None"),
        (openai.ChatCompletionEncoder, {"include_usage": "x"}, TypeError, "True or False, not"),
        (openai.ChatResponse, {"return_token_ids": "x"}, TypeError, "return_token_ids must be"),
        (anthropic.MessageEncoder, {"response_id": 5}, TypeError, "must be a string, not 5"),
        (anthropic.MessageEncoder, {"input_tokens": None}, ValueError, "input_tokens must be"),
        (anthropic.MessageEncoder, {"stop_sequences": "ab"}, TypeError, "stop_sequences must be"),
    ],
)
def test_wrong_options_are_rejected(
    make: Any, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    """They would be sent to the client, or mean the opposite."""
    head = MESSAGE if make is anthropic.MessageEncoder else HEAD
    with pytest.raises(error, match=told):
        make(**{**head, **options})


# --- events as the standard's own rules read them -------------------------------------------------


NO_SURROGATES = st.characters(exclude_categories=["Cs"])
texts = st.text(st.one_of(st.sampled_from("\r\n: \x85\u2028\ufeffa"), NO_SURROGATES))
one_line = st.text(NO_SURROGATES, min_size=1).filter(lambda text: not set(text) & set("\r\n\0"))


def read(stream: bytes) -> list[tuple[str, str]]:
    """Name and data of each event: the standard's section "interpreting a stream"."""
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    found, name, data = [], "", ""
    for line in text.split("\n"):
        if not line:
            if data:
                found.append((name or "message", data.removesuffix("\n")))
            name = data = ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
    return found


@given(st.lists(st.tuples(texts, st.none() | one_line), max_size=4))
@example([("a\rb\nc\r\nd", None)])
def test_events_are_read_as_they_were_meant(events: list[tuple[str, str | None]]) -> None:
    stream, wanted = b"", []
    for data, name in events:
        stream += b": keep-alive\n\n" + sse.event(data, name=name)
        lines = data.replace("\r\n", "\n").replace("\r", "\n")
        wanted.append((name or "message", lines))
    assert read(stream) == wanted


@pytest.mark.parametrize("name", ["a\nb", "", "a\0"])
def test_a_name_that_readers_ignore_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="name must be one line"):
        sse.event("data", name=name)

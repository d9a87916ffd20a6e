"""Bodies: they arrive within limits, and are checked before they are parsed."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from streamdec.server import ServerLimits, bodies
from streamdec.server.admission import LARGE, Admission, Place
from streamdec.server.bodies import arrived, object_of
from streamdec.server.problems import RequestError
from streamdec.server.slots import Slots


class Body:
    """A request whose body comes in parts, and how much of it was read."""

    def __init__(self, parts: list[bytes], pauses: float = 0, length: int | None = None) -> None:
        self.parts = parts
        self.num_read = 0
        self._pauses = pauses
        headers = [(b"content-type", b"application/json")]
        headers += [] if length is None else [(b"content-length", b"%d" % length)]
        self.request = Request({"type": "http", "method": "POST", "headers": headers}, self.receive)

    async def receive(self) -> dict[str, Any]:
        await anyio.sleep(self._pauses)
        self.num_read += 1
        more = self.num_read < len(self.parts)
        return {"type": "http.request", "body": self.parts[self.num_read - 1], "more_body": more}


def admission_of(limits: ServerLimits) -> Admission:
    return Admission(limits, Slots(limits.concurrent, limits.waiting_seconds))


def test_large_bodies_wait_for_one_another_unread() -> None:
    limits = ServerLimits(body_seconds=0.3, bodies_bytes=3 * LARGE)
    large = [b" " * LARGE] * 3

    async def main() -> None:
        admission = admission_of(limits)
        with Place(admission) as first, Place(admission) as second:
            assert await arrived(Body(large).request, limits, first) == b"".join(large)
            small = Body([b"{", b" " * (LARGE - 3), b"}"])
            assert len(await arrived(small.request, limits, second)) == LARGE - 1
            body = Body(large)
            with pytest.raises(RequestError, match="too many large requests") as refused:
                await arrived(body.request, limits, second)
            assert (refused.value.status, refused.value.headers["connection"]) == (429, "close")
            assert body.num_read == 1
            first.leave()
            assert await arrived(Body(large).request, limits, second) == b"".join(large)

    asyncio.run(main())


@pytest.mark.parametrize(("length", "num_read"), [(None, 2), (9, 1), (10, 0), (10**30, 0)])
def test_a_body_with_a_too_large_content_length_is_not_read(
    length: int | None, num_read: int
) -> None:
    limits = ServerLimits(body_bytes=9)

    async def main() -> None:
        body = Body([b" " * 9, b" "] if length is None else [b" " * 9], length=length)
        with Place(admission_of(limits)) as place:
            if length == 9:
                assert await arrived(body.request, limits, place) == b" " * 9
            else:
                with pytest.raises(RequestError, match="must not have more than 9 bytes"):
                    await arrived(body.request, limits, place)
        assert body.num_read == num_read

    asyncio.run(main())


def test_bodies_that_arrive_together_do_not_wait_for_one_another() -> None:
    """The first one always continues, although there is no room for all together."""
    limits = ServerLimits(body_seconds=5, bodies_bytes=3 * LARGE)

    async def main() -> None:
        admission = admission_of(limits)
        sizes = []

        async def arrive() -> None:
            with Place(admission) as place:
                sizes.append(
                    len(await arrived(Body([b" " * LARGE] * 3, 0.01).request, limits, place))
                )

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(arrive)
        assert sizes == [3 * LARGE] * 6

    asyncio.run(main())


@pytest.mark.parametrize(("num_bytes", "is_in_time"), [(1, False), (2048, True)])
def test_a_body_must_keep_the_least_rate(
    num_bytes: int, is_in_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    limits = ServerLimits(body_bytes=20_000, body_seconds=20)  # 1,000 bytes a second

    async def main() -> None:
        body = Body([b" " * num_bytes] * 8, pauses=0.1)
        with Place(admission_of(limits)) as place:
            if is_in_time:
                assert len(await arrived(body.request, limits, place)) == 8 * num_bytes
                return
            with pytest.raises(RequestError, match="too slowly") as refused:
                await arrived(body.request, limits, place)
            assert refused.value.status == 408
            assert body.num_read < 8

    asyncio.run(main())


@pytest.mark.parametrize(
    "content",
    [
        b'[%b""]' % (b'"",' * 100),
        b"[%b[]]" % (b"[]," * 100),
        b"[%b{}]" % (b"{}," * 100),
        b'["%b", %b""]' % (rb"\"," * 100, b'"",' * 100),
        b"{%b}" % b",".join(b'"%d": 0' % number for number in range(101)),
    ],
)
def test_the_number_of_values_has_a_limit(content: bytes) -> None:
    limits = ServerLimits(values=100)
    with pytest.raises(RequestError, match="more than 100 strings, lists and objects"):
        object_of(b'{"x": %b}' % content, limits)


@pytest.mark.parametrize("text", ['"' * 500, "[" * 500, "\\" * 500, '{"a": ["' * 99, '"\\'])
def test_the_characters_of_a_text_do_not_count_as_values(text: str) -> None:
    limits = ServerLimits(values=5, depth=2)
    given = {"x": [text, text]}
    assert object_of(json.dumps(given).encode(), limits) == given
    with pytest.raises(RequestError, match="more than 5"):
        object_of(json.dumps({"x": [text, text, text]}).encode(), limits)


def test_the_number_of_numbers_has_a_limit() -> None:
    limits = ServerLimits(values=10, samples=2, prompt_tokens=20)
    given = {"prompt": [[1] * 20, [1] * 20]}
    assert object_of(json.dumps(given).encode(), limits) == given
    with pytest.raises(RequestError, match="commas outside of strings"):
        object_of(json.dumps({"x": [1] * 60}).encode(), limits)


def test_a_body_becomes_an_object_of_bounded_size() -> None:
    """A list of empty lists takes some 20 times its bytes, if it is parsed."""
    limits = ServerLimits()
    kinds = [b"[],", b"{},", b'"",', b"1e5,", b'{"":1},', rb'"\ud83d\ude00",']
    for kind in kinds:
        data = b'{"x": [%b 0]}' % (kind * (limits.body_bytes // len(kind) - 5))
        tracemalloc.start()
        try:
            with suppress(RequestError):
                object_of(data, limits)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 16 * limits.body_bytes, kind


def test_requests_are_rejected_unread_if_too_many_are_prepared() -> None:
    limits = ServerLimits(concurrent=1, waiting=1)

    async def main() -> None:
        admission = admission_of(limits)
        with Place(admission) as first, Place(admission) as second, Place(admission) as third:
            for place in (first, second):
                assert await place.parsed(1, dict) == {}
            with pytest.raises(RequestError, match="too many requests are waiting") as refused:
                await third.parsed(1, dict)
            assert refused.value.status == 429
            with pytest.raises(RequestError, match="too many requests are waiting"):
                Place(admission).__enter__()
            first.leave()
            assert await third.parsed(1, dict) == {}

    asyncio.run(main())


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='"\\[]{},:a\u00e9\n', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet='"\\[{a', max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


def sizes_of(value: Any) -> tuple[int, int]:
    """The strings, lists and objects of a value, and its levels."""
    if isinstance(value, str):
        return 1, 0
    if not isinstance(value, (list, dict)):
        return 0, 0
    inner = [sizes_of(each) for each in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    return 1 + keys + sum(size for size, _ in inner), 1 + max(
        (depth for _, depth in inner), default=0
    )


@given(
    value=st.dictionaries(st.text(max_size=3), JSON_VALUES, min_size=1, max_size=3),
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_values_and_levels_are_counted_exactly(
    value: dict[str, Any], is_ascii: bool, indent: int | None
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    size, depth = sizes_of(value)
    assert object_of(data, ServerLimits(values=size, depth=depth)) == value
    with pytest.raises(RequestError, match=f"more than {size - 1} strings"):
        object_of(data, ServerLimits(values=size - 1, depth=depth))
    if depth > 1:
        with pytest.raises(RequestError, match=f"more than {depth - 1} deep"):
            object_of(data, ServerLimits(values=size, depth=depth - 1))


@given(st.text(alphabet='"\\[]{},:1a ', max_size=40).map(str.encode))
def test_invalid_json_is_rejected_as_the_json_module_rejects_it(data: bytes) -> None:
    """The counts may be anything if the body is not JSON."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if isinstance(found, dict):
        with suppress(RequestError):  # a key that is there twice
            assert object_of(data, ServerLimits()) == found
        return
    with pytest.raises(RequestError):
        object_of(data, ServerLimits())

"""Objects of all kinds in messages: plain data where the profile wants it, untouched where not."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from streamdec.chat.plain import plain
from streamdec.chat.template import ChatTemplate


class Colour(str, Enum):  # noqa: UP042 - as most code in use has it
    RED = "red"


class Level(IntEnum):
    HIGH = 2


@dataclass
class Point:
    x: Any
    y: Any = None


class Model:
    """As pydantic's models look to others."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def model_dump(self) -> dict[str, Any]:
        return dict(self.__dict__)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (1.5, 1.5),
        ("a", "a"),
        (Colour.RED, "red"),
        (Level.HIGH, 2),
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(False), False),
        (np.str_("a"), "a"),
        (np.array([1]), "<ndarray>"),
        (b"a", "<bytes>"),
        ({1}, "<set>"),
        (len, "<builtin_function_or_method>"),
        (Point, "<type>"),
        ([Point(1, Colour.RED)], [{"x": 1, "y": "red"}]),
        ((1, [Level.HIGH]), (1, [2])),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({Colour.RED: Point(1)}), {"red": {"x": 1, "y": None}}),
        (Model(role="user", content=Model(a=1)), {"role": "user", "content": {"a": 1}}),
    ],
)
def test_each_value_becomes_plain_data(value: Any, expected: Any) -> None:
    assert repr(plain(value)) == repr(expected)  # 1, 1.0 and True are equal


def test_only_hardened_hides_what_objects_can_do() -> None:
    class Dangerous:
        def delete(self) -> str:
            return "deleted"

    source = "{{ x.delete() }}"
    assert ChatTemplate(source).render([{"role": "user"}], x=Dangerous()) == "deleted"
    hardened = ChatTemplate("{{ x }}", profile="hardened")
    assert hardened.render([{"role": "user"}], x=Dangerous()) == "<Dangerous>"

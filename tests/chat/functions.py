"""Functions that are given as tools, as people write them."""

# ruff: noqa: ARG001, D205, D212, D417, PYI016, PYI061 - they are read and never called, and people write so

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Optional, Union


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Mood(Enum):
    CALM = 1
    WILD = "wild"


class Place:
    """A class that JSON knows nothing of."""


def plain_types(a: int, b: float, c: str, d: bool, e: None) -> str:
    """Has one of each.

    Args:
        a: The first
        b: The second,
            which goes on in another line
        c:   Spaces before
        d: With a colon: as here
        e: Nothing

    Returns:
        Some text
    """
    return f"{a}{b}{c}{d}{e}"


def no_arguments() -> None:
    """Does something."""


def defaults(
    city: str, unit: Literal["c", "f"] = "c", days: int = 1, *, exact: bool = False
) -> dict[str, Any]:
    """
    The weather, 天気 🌦️.

    In several lines, with a blank one.

    Args:
        city: 城市 "quoted" <b>
        unit: The unit (choices: ["c ", "f"])
        days: How many
        exact: Whether

    Returns:
        A forecast

    Raises:
        ValueError: never
    """
    return {}


def containers(
    a: list[int],
    b: list,  # type: ignore[type-arg]
    c: dict[str, float],
    d: dict,  # type: ignore[type-arg]
    e: tuple[int, str],
    f: tuple,  # type: ignore[type-arg]
    g: list[list[str]],
    h: Any,
) -> list[str]:
    """Holds things.

    Args:
        a: a
        b: b
        c: c
        d: d
        e: e
        f: f
        g: g
        h: h
    """
    return []


def unions(
    a: int | str,
    b: Optional[int],  # noqa: UP045 - people write it so
    c: Union[int, str, None],  # noqa: UP007 - and so
    d: list[int] | None,
    e: list[int] | int,
    f: Literal["x", 1, None],
    g: int | int,
    h: list | tuple,  # type: ignore[type-arg]
) -> int | None:
    """Is this or that.

    Args:
        a: a
        b: b
        c: c
        d: d
        e: e
        f: f
        g: g
        h: h

    Returns:
        One of them
    """
    return None


def nested_docs(first: str, second: str) -> str:
    """Has entries in its entries.

    Args:
        first: One of
            left: this side
            right: that side
        second:
            The next line has it
    """
    return first + second


def flat_docs(first: str, second: str) -> str:
    """Has a description at the depth of the names.

    Args:
        first: One
        that goes on here
        second: Two
    """
    return first + second


def with_types_in_docs(name: str) -> str:
    """Says a type in the docstring.

    Args:
        name (str): The name
    """
    return name


def an_enum(unit: Unit, mood: Mood) -> str:
    """Takes an enum.

    Args:
        unit: The unit
        mood: The mood
    """
    return unit.value


def a_class(place: Place) -> str:
    """Takes an object.

    Args:
        place: Where
    """
    return str(place)


def returns_a_class(name: str) -> Place:
    """Gives an object.

    Args:
        name: What it is called

    Returns:
        A place
    """
    return Place()


def no_docstring(a: int) -> int:
    return a


def no_hint(a) -> int:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Has no hint.

    Args:
        a: a
    """
    return 1


def undocumented(a: int, b: int) -> int:
    """Says nothing of b.

    Args:
        a: a
    """
    return a + b


def one_tuple(a: tuple[int]) -> int:
    """Has a tuple of one.

    Args:
        a: a
    """
    return 1


def any_tuple(a: tuple[int, ...]) -> int:
    """Has a tuple of any length.

    Args:
        a: a
    """
    return 1


def choices_of_numbers(a: int) -> int:
    """Chooses.

    Args:
        a: A number (Choices: [1, 2, 3])
    """
    return a


def only_args(a: int) -> int:
    """Args:
    a: a
    """
    return a


class Tools:
    """Methods are tools too."""

    def method(self, a: int) -> int:
        """Is a method.

        Args:
            a: a
        """
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        """Is a class method.

        Args:
            a: a
        """
        return a

    @staticmethod
    def static(a: int) -> int:
        """Is a static method.

        Args:
            a: a
        """
        return a


METHODS = (Tools().method, Tools.of_class, Tools.static)

"""The engines whose behaviour is known, and the versions whose source was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ENGINES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("0.19.1", "0.33.0"),
    "sglang": ("0.5.10", "0.5.23"),
    "transformers": (
        *("4.57.6", "5.0.0", "5.5.4", "5.19.0", "5.20.0"),
        *("5.21.0", "5.22.0", "5.23.0", "5.24.0"),
    ),
}
"""Each engine and the versions whose source was read, the newest last."""
_DISPLAY_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}
_FIRST_WITHOUT_4 = {"transformers": "5", "vllm": "0.24", "sglang": "0.5.10"}
"""vLLM 0.24 rejects transformers 4; SGLang 0.5.10 pins 5.3.0."""
_VERSION = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:[.\-+a-z].{0,40})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine of one version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def before(self, version: str) -> bool:
        """Return whether it is older than ``version``."""
        return _numbers(self.version) < _numbers(version)

    @property
    def rules_of(self) -> str:
        """The version whose rules apply: the newest one read that is not newer than this."""
        known = ENGINES[self.name]
        return next((v for v in reversed(known) if not self.before(v)), known[0])

    @property
    def may_have_transformers_4(self) -> bool:
        """Whether it may run on transformers before 5.0."""
        return self.name in _FIRST_WITHOUT_4 and self.before(_FIRST_WITHOUT_4[self.name])


def display_names(engines: Iterable[Engine]) -> str:
    """Return the names of engines for a sentence: ``vLLM, SGLang and transformers``.

    A version is added if the same engine is there twice.
    """
    listed = list(engines)
    twice = len({engine.name for engine in listed}) < len(listed)
    names = [
        _DISPLAY_NAMES.get(engine.name, engine.name) + (f" {engine.version}" if twice else "")
        for engine in listed
    ]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def parse_engine(name: str) -> Engine:
    """Return the engine of that name; without ``@version`` the newest one known.

    Raises ValueError for an unknown engine or a bad version, TypeError if ``name`` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"an engine must be a string, got {type(name).__name__}")
    engine, at, version = name.partition("@")
    engine = engine.strip().lower().replace("_", "-")
    if engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise ValueError(f"unknown engine {name!r:.60}; known are {known}, as in 'sglang@0.5.10'")
    if not at:
        return Engine(engine, ENGINES[engine][-1])
    if not _VERSION.fullmatch(version.strip()):
        raise ValueError(f"{name!r:.60}: the version must be numbers, as in 'sglang@0.5.10'")
    return Engine(engine, version.strip().removeprefix("v"))


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    assert match is not None, version
    return tuple(int(part or 0) for part in match.groups())

"""The checks under pytest: a test for each bug case and each law.

Named with ``-p streamdec.testing.plugin`` or ``pytest_plugins = ["streamdec.testing.plugin"]``. It
is no entry point: those are imported, with hypothesis, by every run of pytest wherever streamdec is
installed.

In: ``--detokenizer module:callable``, or a fixture ``detokenizer`` of the project. Out: the fixture
``conformance_check``, one for each check:

    def test_detokenizer(conformance_check, detokenizer):
        conformance_check(detokenizer)

``streamdec.testing.suite`` is that test: ``pytest --pyargs streamdec.testing.suite`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, TypeAlias

import pytest

from streamdec.testing.checks import checks

__all__ = [
    "ConformanceCheck",
    "conformance_check",
    "detokenizer",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
]

ConformanceCheck: TypeAlias = Callable[[Any], None]
"""Called with what makes a detokenizer; passes, fails or skips the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line."""
    group = parser.getgroup("streamdec", "conformance of detokenizers")
    group.addoption(
        "--detokenizer", metavar="MODULE:CALLABLE", help="what makes the detokenizer to check"
    )
    group.addoption(
        "--detokenizer-tokenizer",
        metavar="PATH",
        action="append",
        help="a tokenizer.json to try the laws on, instead of small ones; may be repeated",
    )
    group.addoption(
        "--detokenizer-strict",
        action="store_true",
        help="also try the laws about latency: nothing is withheld without need",
    )
    group.addoption(
        "--detokenizer-examples",
        type=int,
        default=100,
        metavar="N",
        help="examples of each law on each tokenizer (default: 100)",
    )
    group.addoption(
        "--detokenizer-seed", type=int, default=0, metavar="N", help="another seed, other examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    """What ``--detokenizer`` names is looked for once, before any test."""
    named = config.getoption("--detokenizer")
    if named is not None:
        _named(named)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each check, where one asks for ``conformance_check``."""
    if "conformance_check" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    paths = option("--detokenizer-tokenizer")
    try:
        found = checks(
            tokenizers={path: path for path in paths} if paths else None,
            strict=option("--detokenizer-strict"),
            seed=option("--detokenizer-seed"),
            max_examples=option("--detokenizer-examples"),
        )
    except ValueError as error:  # shown without a traceback, once
        raise pytest.Collector.CollectError(str(error)) from error
    parameters = [pytest.param(check, id=check.name) for check in found]
    metafunc.parametrize("conformance_check", parameters, indirect=True)


@pytest.fixture
def conformance_check(request: pytest.FixtureRequest) -> ConformanceCheck:
    """One check: call it with what makes a detokenizer."""
    check = request.param

    def run(make: Any) -> None:
        result = check.run(make)
        if result.outcome == "skipped":
            pytest.skip(result.detail)
        if result.outcome == "failed":
            pytest.fail(f"{result.name}: {result.detail}", pytrace=False)

    return run


@pytest.fixture(scope="session")
def detokenizer(request: pytest.FixtureRequest) -> Any:
    """What ``--detokenizer`` names; a project may have a fixture of this name instead."""
    named: str | None = request.config.getoption("--detokenizer")
    if named is None:
        raise pytest.UsageError("name what makes the detokenizer: --detokenizer module:callable")
    return _named(named)


def _named(named: str) -> Any:
    module, colon, name = named.partition(":")
    if not (module and colon and name):
        raise pytest.UsageError(f"--detokenizer is module:callable, not {named!r}")
    try:
        return reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"--detokenizer {named}: {error}") from error

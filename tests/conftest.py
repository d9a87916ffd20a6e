"""Which tests run, in which order, and with how many drawn examples."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.files import is_shared, remove_unpacked

COMMON = settings(
    deadline=None,  # the machines are shared: time says nothing
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,  # most patterns that are drawn are refused
    ],
)
settings.register_profile("quick", COMMON, max_examples=7)
# The same examples each time, so that a change that turns it red is to blame.
CI = settings(COMMON, max_examples=7, derandomize=True)
settings.register_profile("ci", CI)
# For those who only ask whether there is a counterexample (the mutants): more examples, none made
# small.
settings.register_profile("unshrunk", CI, max_examples=20, phases=[Phase.explicit, Phase.generate])
# For hours: HYPOTHESIS_PROFILE=long python -m pytest -m "" tests/test_laws.py
settings.register_profile("long", COMMON, max_examples=2_000)
DEFAULT = "ci" if os.environ.get("CI") else "quick"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", DEFAULT))

# Child processes use the bytecode of earlier ones, also where Python does not write any.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A client of HTTP reads all certificates of authorities, in 30 ms. No test needs any: this folder
# has none.
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

LAWS = ("test_laws.py", "test_stop_laws.py", "test_stop_model.py", "test_stop_patterns.py")
"""What runs first."""
LONG = ("test_checks.py", "test_how_to.py")
"""Files that take long when they are thorough. At the end, one worker would wait for the other."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests on real tokenizers as thorough, and puts the laws first, then long files."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec and any(map(is_shared, callspec.params.values())):
            item.add_marker("thorough")
    items.sort(key=lambda item: (item.path.name not in LAWS, item.path.name not in LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives each file to one worker, which loads its tokenizers and starts its servers once.

    Only where the default of xdist is asked for. Files are begun in the order of the tests, because
    those with few tests, which xdist would begin last, are often the slow ones.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_sessionfinish() -> None:
    """Removes what the tests put into the folder for temporary files."""
    remove_unpacked()


@given(st.none())
def _drawn(_: None) -> None:
    """A test that makes hypothesis ready."""


@pytest.fixture(scope="session", autouse=True)
def _collections_are_short() -> None:
    """Lets collections of garbage leave out what was made until now.

    That is a million objects of modules and tests, and there are thousands of collections.
    """
    _drawn()  # hypothesis looks for references to random generators, and sees no frozen ones
    gc.collect()
    gc.freeze()

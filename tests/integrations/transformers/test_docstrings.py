"""The examples of the docstrings, which need torch: the ordinary suite leaves them out."""

from __future__ import annotations

import doctest

from tests.integrations.transformers import scripted  # noqa: F401 (skips where torch is missing)


def test_docstring_examples_print_what_they_say() -> None:
    from streamdec.integrations import transformers

    result = doctest.testmod(transformers)
    assert result.attempted
    assert result.failed == 0

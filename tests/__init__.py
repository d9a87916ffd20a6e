"""The tests, the laws, and what they share with the fuzzers."""

import pytest

# With this, a law that fails shows the two values that it compared.
pytest.register_assert_rewrite(
    *("tests.laws", "tests.decoder_laws", "tests.stop_laws", "tests.stop_model"),
    "tests.streams.laws",
)

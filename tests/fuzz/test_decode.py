"""The long run tries each law on the tokenizers that pytest tries it on."""

from __future__ import annotations

from fuzz.decode import targets
from tests.support.zoo import ZOO
from tests.test_laws import FORMATS, MOCKS, SHARED, WINDOWED


def tokenizers_of(law: str) -> list[str | None]:
    return [target.tokenizer for target in targets() if target.law == law]


def test_a_law_of_the_windowed_route_is_tested_with_its_tokenizers() -> None:
    assert tokenizers_of("window_laws_0_and_16") == WINDOWED


def test_a_law_of_any_tokenizer_is_tested_with_all() -> None:
    assert tokenizers_of("law_0_chunk_invariance") == [*MOCKS, *ZOO, *FORMATS, *SHARED]


def test_a_law_that_draws_its_tokenizer_is_tested_once() -> None:
    assert tokenizers_of("law_6_eager_runs") == [None]

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamdec.backends._tokenizer_json import parse
from streamdec.loading import untrusted


@pytest.fixture(autouse=True, scope="package")
def _in_this_process() -> Iterator[None]:
    """These tests inspect thousands of folders. Each would start a child process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrusted, "try_content", lambda content: parse(content, "JSON"))
        yield

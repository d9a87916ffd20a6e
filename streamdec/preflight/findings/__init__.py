"""The checks of a preflight, one module for each subject.

In: a :class:`View`. Out: findings. What a finding says is in ``streamdec/preflight/rules.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamdec.preflight.findings import eos, files, hub, quantization, template, tokens
from streamdec.preflight.report import Finding
from streamdec.preflight.view import View

__all__ = ["check_all"]


def check_all(view: View) -> Iterator[Finding]:
    """Yield all findings. The module ``files`` is last: by then all files are read."""
    for module in (eos, tokens, template, quantization, hub, files):
        yield from module.check(view)

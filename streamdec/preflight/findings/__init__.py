"""The checks of a preflight, one module for each subject.

In: a :class:`View`. Out: findings. The texts of the findings are in
``streamdec/preflight/rules.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamdec.preflight.findings import added_tokens, chat_templates, eos, files, quantization
from streamdec.preflight.preflight_report import Finding
from streamdec.preflight.view import View

__all__ = ["check_all"]


def check_all(view: View) -> Iterator[Finding]:
    """Yield all findings. The module ``files`` is last: by then all files are read."""
    for module in (eos, added_tokens, chat_templates, quantization, files):
        yield from module.check(view)

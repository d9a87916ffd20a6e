"""The rules of a preflight, one module for each subject.

In: a :class:`View`. Out: findings. Each rule is declared once: its severity, when it fires, which
engines it affects, what to do, and the source of the behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamdec.preflight.findings import eos, files, hub, quantization, template, tokens
from streamdec.preflight.report import Finding, Rule
from streamdec.preflight.view import View

__all__ = ["RULES", "RULES_BY_TITLE", "check_all"]

_MODULES = {
    "Ends of sequences": eos,
    "Tokens": tokens,
    "Files and classes": files,
    "Chat templates": template,
    "Quantisation": quantization,
    "The hub": hub,
}
RULES_BY_TITLE: Mapping[str, tuple[Rule, ...]] = {
    title: tuple(rule for rule in vars(module).values() if isinstance(rule, Rule))
    for title, module in _MODULES.items()
}
"""The rules of each module, in the order of their definition, under a title."""
RULES: Mapping[str, Rule] = {rule.code: rule for rules in RULES_BY_TITLE.values() for rule in rules}
"""Every rule by its code."""


def check_all(view: View) -> Iterator[Finding]:
    """Yield the findings of all rules. The module ``files`` is last: by then all files are read."""
    for module in (eos, tokens, template, quantization, hub, files):
        yield from module.check(view)

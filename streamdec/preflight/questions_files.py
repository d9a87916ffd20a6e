"""The question where the files of a snapshot contradict each other.

In: the folder. Out: the findings of a preflight that compare one file with another.
"""

from __future__ import annotations

import os

from streamdec.preflight.inspection import inspect
from streamdec.preflight.report import Finding

__all__ = ["COMPARING", "cross_ref_files"]

COMPARING = frozenset(
    (
        *("EOS_SOURCES_DISAGREE", "EOS_TOKEN_NOT_IN_VOCAB", "EOS_ID_UNKNOWN"),
        *("BOS_SOURCES_DISAGREE", "SPECIAL_FLAG_DRIFT", "ADDED_TOKEN_CONTENT_DRIFT"),
        *("ADDED_TOKEN_ID_DRIFT", "ADDED_TOKEN_ONLY_IN_CONFIG", "SPECIAL_TOKENS_MAP_OVERRIDES"),
        *("SPECIAL_TOKENS_MAP_STALE", "CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE"),
        *("CHAT_TEMPLATE_INLINE_LOST", "CHAT_TEMPLATE_DEFAULT_COLLISION"),
        *("CHAT_TEMPLATE_LEGACY_JSON", "QUANT_SIDECAR_ONLY", "QUANT_MULTIPLE_DISAGREE"),
    )
)
"""The codes that are about more than one file. A file against an engine is not among them."""


def cross_ref_files(path: str | os.PathLike[str]) -> list[Finding]:
    """Where files of the snapshot in ``path`` say different things: the gravest first.

    Each finding names the files, what each of them says, and which of them counts (in its action).
    The severity takes precedence into account: a ``special_tokens_map.json`` that nobody reads is
    worth knowing, one that overrides is a warning. No template is rendered.

    Raises :class:`~streamdec.PreflightError` for what is no folder.

    >>> from streamdec.preflight import cross_ref_files
    >>> for finding in cross_ref_files("path/to/model"):
    ...     print(finding.code, [evidence.file for evidence in finding.evidence])
    EOS_SOURCES_DISAGREE ['tokenizer_config.json', 'generation_config.json', 'config.json']
    """
    return [found for found in inspect(path, render=False).findings if found.code in COMPARING]

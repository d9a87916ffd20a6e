"""Preflight: what engines will do with a model snapshot.

In: a folder. Out: findings (:func:`~streamdec.preflight.inspect`), the ids on which an engine stops
(:func:`~streamdec.preflight.effective_stop_tokens`), stop conditions made of them
(:func:`~streamdec.preflight.stop_conditions`), and answers to single questions
about tokens, templates and files. Of the files, only the chat template is run, in a child process
with limits; ``render=False`` turns that off. Only
:func:`~streamdec.preflight.verify_commit_reachable` uses the network. transformers is not needed.
"""

from streamdec.preflight.eos_sources import Source
from streamdec.preflight.inspection import inspect
from streamdec.preflight.preflight_report import Evidence, Finding, Report, Severity
from streamdec.preflight.questions_files import (
    CommitStatus,
    QuantizationEntry,
    cross_ref_files,
    find_nested_quantization_config,
    summarize_quant_config,
    verify_commit_reachable,
)
from streamdec.preflight.questions_templates import (
    TemplateKwargs,
    TurnMarker,
    build_chat_template_env,
    effective_template_kwargs,
    is_turn_marker_eos,
)
from streamdec.preflight.questions_tokens import (
    DiscoveredToken,
    EffectiveTokenizerClass,
    discover_added_tokens,
    effective_tokenizer_class,
    resolve_marker_to_id,
    version_gate_tokenizer_class,
)
from streamdec.preflight.stop_tokens import StopTokens, effective_stop_tokens, stop_conditions

__all__ = [
    "CommitStatus",
    "DiscoveredToken",
    "EffectiveTokenizerClass",
    "Evidence",
    "Finding",
    "QuantizationEntry",
    "Report",
    "Severity",
    "Source",
    "StopTokens",
    "TemplateKwargs",
    "TurnMarker",
    "build_chat_template_env",
    "cross_ref_files",
    "discover_added_tokens",
    "effective_stop_tokens",
    "effective_template_kwargs",
    "effective_tokenizer_class",
    "find_nested_quantization_config",
    "inspect",
    "is_turn_marker_eos",
    "resolve_marker_to_id",
    "stop_conditions",
    "summarize_quant_config",
    "verify_commit_reachable",
    "version_gate_tokenizer_class",
]

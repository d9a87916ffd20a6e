"""The questions that engineers ask of a snapshot, each as a function.

====================================  ============================================================
which tokens are added?               :func:`~streamdec.preflight.discover_added_tokens`
what id has this marker?              :func:`~streamdec.preflight.resolve_marker_to_id`
which stop ids begin a turn?          :func:`~streamdec.preflight.is_turn_marker_eos`
where do the files disagree?          :func:`~streamdec.preflight.cross_ref_files`
which transformers does it need?      :func:`~streamdec.preflight.version_gate_tokenizer_class`
which class loads the tokenizer?      :func:`~streamdec.preflight.effective_tokenizer_class`
is it quantised, and where?           :func:`~streamdec.preflight.find_nested_quantization_config`
how is it quantised?                  :func:`~streamdec.preflight.summarize_quant_config`
how are templates rendered?           :func:`~streamdec.preflight.build_chat_template_env`
what becomes of my kwargs?            :func:`~streamdec.preflight.effective_template_kwargs`
is this commit on the branch?         :func:`~streamdec.preflight.verify_commit_reachable`
====================================  ============================================================
"""

from streamdec.preflight.questions_classes import (
    EffectiveTokenizerClass,
    effective_tokenizer_class,
    version_gate_tokenizer_class,
)
from streamdec.preflight.questions_commits import CommitStatus, verify_commit_reachable
from streamdec.preflight.questions_files import cross_ref_files
from streamdec.preflight.questions_kwargs import (
    TemplateKwargs,
    build_chat_template_env,
    effective_template_kwargs,
)
from streamdec.preflight.questions_quantization import (
    QuantizationEntry,
    find_nested_quantization_config,
    summarize_quant_config,
)
from streamdec.preflight.questions_tokens import (
    DiscoveredToken,
    TurnMarker,
    discover_added_tokens,
    is_turn_marker_eos,
    resolve_marker_to_id,
)

__all__ = [
    "CommitStatus",
    "DiscoveredToken",
    "EffectiveTokenizerClass",
    "QuantizationEntry",
    "TemplateKwargs",
    "TurnMarker",
    "build_chat_template_env",
    "cross_ref_files",
    "discover_added_tokens",
    "effective_template_kwargs",
    "effective_tokenizer_class",
    "find_nested_quantization_config",
    "is_turn_marker_eos",
    "resolve_marker_to_id",
    "summarize_quant_config",
    "verify_commit_reachable",
    "version_gate_tokenizer_class",
]

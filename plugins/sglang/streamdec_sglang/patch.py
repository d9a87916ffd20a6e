"""Where SGLang is changed: hooks on methods of the detokenizer and on the making of requests.

SGLang applies hooks when all plugins are loaded. The ``AROUND`` hook on
``DetokenizerManager._decode_batch_token_id_output`` gets the method that it is around, which is
SGLang's own or another plugin's, and calls it for what streamdec does not support. The ``AFTER``
hook on ``Req.__init__`` changes the class of a request that has stop strings. The hook around
``DetokenizerManager.trim_matched_stop`` cuts the text of a request of which stops were ignored.
"""

from __future__ import annotations

import inspect
from importlib.metadata import version

from sglang.srt.managers import detokenizer_manager, schedule_batch
from sglang.srt.managers.io_struct import BatchTokenIDOutput
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from streamdec_sglang import __version__
from streamdec_sglang.detokenizer import FIELDS, decode_batch
from streamdec_sglang.logs import logger
from streamdec_sglang.stops import equip, trim_matched_stop

__all__ = ["REQUEST", "TARGET", "TRIM", "HookRegistry", "apply"]

_METHOD = "_decode_batch_token_id_output"
TARGET = f"{detokenizer_manager.__name__}.DetokenizerManager.{_METHOD}"
"""The method that decodes batches."""
TRIM = f"{detokenizer_manager.__name__}.DetokenizerManager.trim_matched_stop"
"""The method that cuts a text at a stop."""
REQUEST = f"{schedule_batch.__name__}.Req.__init__"
"""The method that makes the scheduler's requests."""

_EXPECTED = {
    (detokenizer_manager, "DetokenizerManager", _METHOD): ["self", "recv_obj"],
    (detokenizer_manager, "DetokenizerManager", "trim_matched_stop"): [
        *("self", "output", "finished_reason", "no_stop_trim")
    ],
    (detokenizer_manager, "DetokenizerManager", "_clamp_decode_ids"): ["ids", "vocab_size"],
    (detokenizer_manager, "DecodeStatus", "__init__"): [
        *("self", "decoded_text", "decode_ids", "surr_offset", "read_offset", "sent_offset"),
        "decoded_text_chunks",
    ],
    (schedule_batch, "Req", "_check_str_based_finish"): ["self", "new_accepted_len"],
    (schedule_batch, "Req", "_stop_match_tail_len"): ["self", "new_accepted_len"],
    (schedule_batch, "Req", "check_match_stop_str_prefix"): ["self"],
    (schedule_batch, "Req", "init_incremental_detokenize"): ["self"],
}
"""The parameters of the methods that are replaced or called, in the versions that were tried."""

_is_applied = False


def apply(*, with_stops: bool) -> None:
    """Register the hooks, if SGLang's classes have the expected methods, parameters and fields.

    Args:
        with_stops: whether the scheduler's search for stop strings is changed, too.
    """
    global _is_applied
    if _is_applied:
        return
    unlike = _difference()
    if unlike:
        logger.error(
            "streamdec-sglang %s does not know SGLang %s (%s): it does nothing.",
            __version__,
            version("sglang"),
            unlike,
        )
        return
    HookRegistry.register(TARGET, decode_batch, HookType.AROUND)
    if with_stops:
        HookRegistry.register(REQUEST, equip, HookType.AFTER)
        HookRegistry.register(TRIM, trim_matched_stop, HookType.AROUND)
    _is_applied = True


def _difference() -> str:
    """What SGLang's classes do not have as expected; empty if nothing."""
    for (module, name, method), expected in _EXPECTED.items():
        found = getattr(getattr(module, name, None), method, None)
        if found is None:
            return f"{name}.{method} is missing"
        parameters = [*inspect.signature(found).parameters]
        if parameters != expected:
            return f"{name}.{method} takes {', '.join(parameters)}"
    missing = [name for name in FIELDS if not hasattr(BatchTokenIDOutput, name)]
    return f"BatchTokenIDOutput has no {', '.join(missing)}" if missing else ""

"""The exchange of the detokenizer: ``IncrementalDetokenizer.from_new_request``.

vLLM makes the detokenizer of a request with this class method and nothing else, so replacing it on
the class works whichever module has imported the class before.

That method does not get the configuration of the engine. ``InputProcessor.__init__`` does, which
each engine calls before its first request, so it is wrapped to note the reasoning parser.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from vllm.v1.engine import detokenizer as theirs
from vllm.v1.engine.input_processor import InputProcessor

from streamdec_vllm import SWITCH, __version__
from streamdec_vllm.detokenizer import Detokenizer, why_unsupported
from streamdec_vllm.logs import logger, say_once, say_why_left
from streamdec_vllm.reasoning import note_engine

__all__ = ["apply", "undo"]

_NAME = "from_new_request"
_EXPECTED = {
    ("IncrementalDetokenizer", "from_new_request"): ["tokenizer", "request"],
    ("IncrementalDetokenizer", "update"): ["self", "new_token_ids", "stop_terminated"],
    ("IncrementalDetokenizer", "get_next_output_text"): ["self", "finished", "delta"],
    ("IncrementalDetokenizer", "num_output_tokens"): ["self"],
    ("FastIncrementalDetokenizer", "__init__"): ["self", "tokenizer", "request"],
}
"""The parameters of the methods that are replaced or called, in the versions that were tried."""

_stock: classmethod[Any, Any, Any] | None = None
"""vLLM's own class method, while ours is in its place."""
_stock_init: Callable[..., None] = InputProcessor.__init__


def apply() -> None:
    """Exchange the detokenizers, if vLLM's classes have the expected methods and parameters."""
    global _stock
    if _stock is not None:
        return
    unlike = _differences()
    if unlike:
        logger.error(
            "streamdec-vllm %s does not fit vLLM %s (%s): it does nothing. Install the "
            "streamdec-vllm for this vLLM, or set %s=off.",
            __version__,
            version("vllm"),
            unlike,
            SWITCH,
        )
        return
    _stock = theirs.IncrementalDetokenizer.__dict__[_NAME]
    setattr(theirs.IncrementalDetokenizer, _NAME, classmethod(_from_new_request))
    InputProcessor.__init__ = _init
    logger.info(
        "streamdec %s decodes the text of requests (%s=off turns it off)",
        version("streamdec"),
        SWITCH,
    )


def undo() -> None:
    """Put vLLM's own class method back."""
    global _stock
    if _stock is not None:
        setattr(theirs.IncrementalDetokenizer, _NAME, _stock)
        InputProcessor.__init__ = _stock_init
        _stock = None


def _differences() -> str:
    """What vLLM's classes do not have as expected; empty if nothing."""
    for (name, method), expected in _EXPECTED.items():
        found = getattr(getattr(theirs, name, None), method, None)
        if found is None:
            return f"{name}.{method} is missing"
        parameters = [*inspect.signature(found).parameters]
        if parameters != expected:
            return f"{name}.{method} takes {', '.join(parameters)}"
    return ""


def _from_new_request(cls: type[Any], tokenizer: Any, request: Any) -> Any:
    """Return streamdec's detokenizer for ``request``, or vLLM's own."""
    assert _stock is not None
    if tokenizer is not None:
        try:
            reason = why_unsupported(tokenizer, request)
            if reason is None:
                return Detokenizer(tokenizer, request)
            say_once(f"vLLM's own detokenizer decodes requests with {reason}")
        except Exception as error:
            say_why_left(error)
    return _stock.__func__(cls, tokenizer, request)


def _init(self: Any, *args: Any, **options: Any) -> None:
    """Initialize vLLM's ``InputProcessor``, and note its reasoning parser."""
    _stock_init(self, *args, **options)
    try:
        note_engine(self.renderer.tokenizer, self.vllm_config)
    except Exception as error:
        say_once("the reasoning parser of this vLLM was not found", exc_info=error)

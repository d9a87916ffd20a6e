"""A plugin for SGLang: streamdec decodes the text of requests.

SGLang calls :func:`register` in each of its processes (entry-point group ``sglang.srt.plugins``).
It puts a hook around ``DetokenizerManager._decode_batch_token_id_output``. From then on each
request has a :class:`streamdec.DecodeStream`; what streamdec does not support is left to SGLang.
"""

from __future__ import annotations

import os

__all__ = ["SWITCH", "TRIED", "__version__", "register"]

__version__ = "0.1.0"

SWITCH = "STREAMDEC_SGLANG"
"""The environment variable: ``off`` leaves SGLang as it is, ``on`` also changes a version of SGLang
that was not tried, if its classes look the same. By default only tried versions are changed."""

TRIED = ("0.5.23",)
"""The versions of SGLang that the tests of this plugin were run with."""


def register() -> None:
    """Register the hook with SGLang.

    Never raises; logs an untried version and any failure. A second call does nothing.
    """
    switch = os.environ.get(SWITCH, "").strip().lower()
    if switch in ("off", "0", "false", "no"):
        return
    from streamdec_sglang.logs import logger

    try:
        from streamdec_sglang import patch

        patch.apply(is_forced=switch in ("on", "1", "true", "yes"))
    except Exception:
        logger.exception("streamdec-sglang could not be set up; SGLang decodes as without it")

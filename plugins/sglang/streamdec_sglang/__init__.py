"""A plugin for SGLang: streamdec decodes the text of requests, and looks for their stop strings.

SGLang calls :func:`register` in each of its processes (entry-point group ``sglang.srt.plugins``).
It puts hooks on some methods: in the detokenizer process each request then has a
:class:`streamdec.DecodeStream`, and in the scheduler each request with stop strings a
:class:`streamdec.StopSequenceDecoder`. What streamdec does not support is left to SGLang.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version

__all__ = [
    "FIELD",
    "MARKERS",
    "STOPS_SWITCH",
    "SWITCH",
    "TRIED",
    "__version__",
    "has_rust_server",
    "markers_setting",
    "register",
]

__version__ = "0.1.0"

SWITCH = "STREAMDEC_SGLANG"
"""The environment variable: ``off`` leaves SGLang as it is, ``on`` also changes a version of SGLang
that was not tried, if its classes look the same. By default only tried versions are changed."""

STOPS_SWITCH = "STREAMDEC_SGLANG_STOPS"
"""The environment variable: with ``off`` the scheduler is left as it is."""

MARKERS = "STREAMDEC_SGLANG_REASONING_MARKERS"
"""The environment variable with the markers of the model's reasoning. ``auto``: those of SGLang's
reasoning parser. Otherwise a JSON list of texts or ids: ``["<think>", "</think>"]``. Stop strings
between them are ignored in all requests."""

FIELD = "ignore_stops_between"
"""The key of ``custom_params`` of a request with the markers for this request, as a list, or
``auto``. With an empty list, stop strings count everywhere in this request, even if
``STREAMDEC_SGLANG_REASONING_MARKERS`` is set."""

TRIED = ("0.5.23",)
"""The versions of SGLang that the tests of this plugin were run with. Their post-releases and local
builds (``0.5.23.post1``, ``0.5.23+cu130``) count as tried: ``patch`` compares the classes."""

_OFF = ("off", "0", "false", "no")


def markers_setting() -> str:
    """Return what ``MARKERS`` has in the environment; empty if it is not set."""
    return os.environ.get(MARKERS, "")


def has_rust_server() -> bool:
    """Return whether SGLang's Rust server decodes the text, instead of the detokenizer manager."""
    return os.environ.get("SGLANG_RUST_SERVER", "").lower() in ("true", "1", "yes", "y")


def register() -> None:
    """Register the hooks with SGLang.

    Never raises; logs an untried version and any failure. A second call does nothing.
    """
    switch = os.environ.get(SWITCH, "").strip().lower()
    stops = os.environ.get(STOPS_SWITCH, "").strip().lower()
    if switch in _OFF:
        return
    from streamdec_sglang.logs import logger

    try:
        found = version("sglang")
        is_tried = re.split(r"\.post|\+", found)[0] in TRIED
        if not is_tried and switch not in ("on", "1", "true", "yes"):
            logger.warning(
                "streamdec-sglang %s was tried with SGLang %s and not with %s: it does nothing. "
                "Install a newer streamdec-sglang, or set %s=on to use it anyway.",
                __version__,
                ", ".join(TRIED),
                found,
                SWITCH,
            )
            return
        # Another version may not have the modules that this one imports.
        from streamdec_sglang import patch

        patch.apply(with_stops=stops not in _OFF)
    except Exception:
        logger.exception("streamdec-sglang could not be set up; SGLang decodes as without it")

"""A plugin for vLLM: streamdec decodes requests and finds their stop strings.

vLLM calls :func:`register` in each of its processes (entry-point group ``vllm.general_plugins``).
From then on ``IncrementalDetokenizer.from_new_request`` makes a
:class:`~streamdec_vllm.detokenizer.Detokenizer` for each request that streamdec supports, and
vLLM's own class for the others.
"""

from __future__ import annotations

import os
from importlib.metadata import version

__all__ = [
    "FIELD",
    "MARKERS",
    "SWITCH",
    "TRIED",
    "__version__",
    "markers_setting",
    "register",
    "unregister",
]

__version__ = "0.1.0"

SWITCH = "STREAMDEC_VLLM"
"""The environment variable. ``off`` (or ``0``, ``false``, ``no``): do not use the plugin. ``on``
(or ``1``, ``true``, ``yes``): use it also with an untested version of vLLM, if vLLM's classes have
the expected methods and parameters. By default it is used with tested versions only."""

MARKERS = "STREAMDEC_VLLM_REASONING_MARKERS"
"""The environment variable with the markers of the model's reasoning. ``auto``: those of the
engine's reasoning parser. Otherwise a JSON list of texts or ids: ``["<think>", "</think>"]``. Stop
strings between them are ignored in all requests."""

FIELD = "ignore_stops_between"
"""The key of ``SamplingParams.extra_args`` (``vllm_xargs`` of a request to the server) with the
markers for one request, as a list, or ``auto``. With an empty list, stop strings count everywhere
in this request, even if ``STREAMDEC_VLLM_REASONING_MARKERS`` is set."""

TRIED = ("0.33",)
"""The series of vLLM that the tests of this plugin were run with."""


def markers_setting() -> str:
    """Return what ``MARKERS`` has in the environment; empty if it is not set."""
    return os.environ.get(MARKERS, "")


def register() -> None:
    """Make vLLM decode with streamdec.

    Never raises; logs what it did, or why it did nothing. A second call does nothing.
    """
    switch = os.environ.get(SWITCH, "").strip().lower()
    if switch in ("off", "0", "false", "no"):
        return
    from streamdec_vllm.logs import logger

    try:
        found = version("vllm")
        is_tried = ".".join(found.split(".")[:2]) in TRIED
        if not is_tried and switch not in ("on", "1", "true", "yes"):
            logger.warning(
                "streamdec-vllm %s was tried with vLLM %s and not with %s: it does nothing. "
                "Install a newer streamdec-vllm, or set %s=on to use it anyway.",
                __version__,
                ", ".join(TRIED),
                found,
                SWITCH,
            )
            return
        # Another version may not have the modules that this one imports.
        from streamdec_vllm import patch

        patch.apply()
    except Exception:
        logger.exception("streamdec-vllm could not be set up; vLLM decodes as it does without it")


def unregister() -> None:
    """Put vLLM's own detokenizers back, for requests that come after this call."""
    from streamdec_vllm import patch

    patch.undo()

"""``inspect``: the answer and all findings of a snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterable

from streamdec.preflight.engine_versions import display_names, parse_engine
from streamdec.preflight.findings import added_tokens, chat_templates, eos, files, quantization
from streamdec.preflight.preflight_report import SEVERITIES, Report
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.view import View


def inspect(
    path: str | os.PathLike[str],
    engines: str | Iterable[str] = ("vllm", "sglang", "transformers"),
    *,
    render: bool = True,
) -> Report:
    """Report what engines will do with a snapshot, and what is wrong with it.

    Args:
        path: The folder. Its files are read, each up to a size. Only the chat template is run, in a
            child process with little memory and time.
        engines: The engines whose stop tokens are compared: one name or several. A version may
            follow after ``@`` (``vllm@0.33.0``); the default is the newest known version. Findings
            about other programs that read the files are reported too.
        render: Whether to render the chat template. Without it, the answer is unknown, and findings
            that need the text are missing, among them ``EOS_TERMINATOR_NOT_STOPPED``.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not the folder of a model,
    ValueError for an unknown engine. ``docs/how-to/check-a-model.md`` explains each code.

    >>> from streamdec.preflight import inspect
    >>> report = inspect("path/to/model", "vllm@0.33.0")
    >>> report.worst, sorted(report.stop_tokens["vllm@0.33.0"].ids)
    ('warning', [0, 2])
    >>> for finding in report.findings[-1:]:
    ...     print(finding.code, finding.evidence[0], sep=": ")
    PAD_EQUALS_EOS: tokenizer_config.json#/pad_token '<|endoftext|>' 0 '<|endoftext|>'
    """
    names = (engines,) if isinstance(engines, str) else engines
    asked = tuple(dict.fromkeys(parse_engine(name) for name in names))
    if not asked:
        raise ValueError("engines must name at least one engine, such as 'vllm'")
    view = View(open_snapshot(path), asked, render)
    stops, answer = _answer(view)
    # The module files is last: by then all files are read.
    modules = (eos, added_tokens, chat_templates, quantization, files)
    found = [finding for module in modules for finding in module.check(view)]
    found.sort(key=lambda f: (-SEVERITIES.index(f.severity), f.code))
    return Report(
        path=str(path),
        engines=tuple(str(engine) for engine in asked),
        stops_at_end_of_turn=stops,
        answer=answer,
        findings=tuple(found),
        stop_tokens=view.stop,
    )


def _answer(view: View) -> tuple[bool | None, str]:
    """Return whether all engines stop at the template's end of turn, and a sentence."""
    names = f"{display_names(view.engines)} {'stops' if len(view.engines) == 1 else 'stop'}"
    turns, probes = view.turns, view.probes
    marker = turns.terminator or turns.primer
    if marker is None:
        error = probes.error or probes.failed.get("answered")
        why = probes.unavailable or "the template writes no token at the end of a turn"
        if error is not None:
            why = f"{error!s:.300}".partition("\n")[0]
        elif not probes.unavailable and not probes.rendered:
            why = "the chat template was not rendered"
        return None, f"unknown whether {names} at the end of a turn: {why}"
    where = f"the template's end of turn, {marker.id} {marker.text}"
    if turns.terminator is None:
        where = (
            f"the token that begins the next turn, {marker.id} {marker.text} "
            "(the template writes no end of turn)"
        )
    lacking = view.not_stopping_at({marker.id: marker.text})
    if lacking:
        some = [engine for engine in view.engines if view.stop[str(engine)] in lacking]
        verb = "does not" if len(some) == 1 else "do not"
        return False, f"no: {display_names(some)} {verb} stop at {where}"
    if any(marker.id not in found.ids for found in view.stop.values()):
        return None, f"unknown whether {names} at {where}: the id of eos_token is unknown"
    return True, f"yes: {names} at {where}"

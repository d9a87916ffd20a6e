"""``inspect``: all findings of a snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from streamdec.preflight.engine_versions import parse_engine
from streamdec.preflight.findings import check_all
from streamdec.preflight.findings.quantization import quantization_places
from streamdec.preflight.preflight_report import SEVERITIES, Report, SpecialToken
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.stop_tokens import CONFIG, GENERATION
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
        render: Whether to render the chat template. Without it, findings that need its text are
            missing, among them ``EOS_TERMINATOR_NOT_STOPPED``.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder, ValueError for an
    unknown engine. A defect in the folder is a finding. ``docs/reference/findings.md`` explains
    each code and names its source.

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
    found = sorted(check_all(view), key=lambda f: (-SEVERITIES.index(f.severity), f.code))
    return Report(
        path=str(path),
        engines=tuple(str(engine) for engine in asked),
        findings=tuple(found),
        sources=dict(_sources(view)),
        stop_tokens=view.stop,
        special_tokens=dict(_special_tokens(view)),
    )


def _sources(view: View) -> Iterator[tuple[str, str]]:
    """Yield each question and the file that decided it."""
    tokens = view.tokens
    for name, role in tokens.roles.items():
        yield name, role.source
    yield "added_tokens", _added_tokens(view)
    yield "tokenizer_class", f"{tokens.chosen.source}: {tokens.chosen.name} ({tokens.chosen.why})"
    yield "generation_config", CONFIG if view.eos.generation_is_absent else GENERATION
    default = view.templates.default
    if default is not None:
        yield "chat_template", default.file
    elif view.templates.loaded:
        yield "chat_template", "none: no template is named 'default'"
    else:
        yield "chat_template", "none"
    quantization = quantization_places(view)
    if quantization:
        file, key, _ = quantization[0]
        yield "quantization_config", f"{file}: {key}" if key else file
    if view.probes.unavailable and default is not None:
        yield "chat_template_inspected", f"no: {view.probes.unavailable}"


def _special_tokens(view: View) -> Iterator[tuple[str, SpecialToken]]:
    for name, role in view.tokens.roles.items():
        found = view.tokens.resolve(role.text)
        yield (
            name,
            SpecialToken(role.text, found.id, found.resolved, role.source, found.source),
        )


def _added_tokens(view: View) -> str:
    tokens = view.tokens
    if tokens.is_remote or tokens.loaded is None:
        return "tokenizer_config.json" if tokens.has_decoder else "added_tokens.json"
    if tokens.has_decoder:
        return "tokenizer.json, then tokenizer_config.json"
    return "tokenizer.json, then added_tokens.json" if tokens.legacy else "tokenizer.json"

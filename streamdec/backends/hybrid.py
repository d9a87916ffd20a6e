"""The hybrid tokenizer: encodes with fastokens, decodes with ``tokenizers``.

In: a ``tokenizer.json``, read once for both. Out: a :class:`~streamdec.HuggingFaceTokenizer` whose
``encode`` is several times faster if fastokens (extra ``fast``) gives the same ids. Static rules
and the ids of a few thousand strings show that before fastokens is used. Otherwise the Hugging Face
library encodes, and ``report`` has the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self

from streamdec.backends._tokenizer_json import read_json
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.encoding import Encoding, Special
from streamdec.fastpath.fast_path import FastOptions, FastPath
from streamdec.folders.assembled import Assembled
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers.tokenizer_report import FastMode, TokenizerReport, versions_of

__all__ = ["HybridTokenizer"]


class HybridTokenizer(FastPath, HuggingFaceTokenizer):
    """A ``tokenizer.json`` that fastokens encodes wherever that gives the same ids.

    Args:
        source: A path or the JSON itself, as for :class:`~streamdec.HuggingFaceTokenizer`.
        fast: When fastokens is built and compared, which takes three to five times as long as
            loading. ``"background"``: in a thread, when texts of 262,144 code points were encoded.
            ``"now"``: before the constructor returns. ``"off"``: never. The default is the
            environment variable ``STREAMDEC_FAST``, or else ``"background"``.
        strict: Raise if fastokens cannot be used. Needs ``fast="now"``.
        apply_tokenizer_config: As for :class:`~streamdec.HuggingFaceTokenizer`.

    The ids are the same in every mode. In the background, huggingface encodes until fastokens is
    ready; ``wait()`` begins the build and waits for it. If the process forks during the build, the
    child keeps using huggingface. If the program ends during it, it waits for one step of the work.

    Threads may share the tokenizer. Pickling stores how it was loaded, and unpickling loads it
    again.

    Raises ValueError for an invalid option, and the errors of
    :class:`~streamdec.HuggingFaceTokenizer`. With ``strict`` also raises
    :class:`~streamdec.errors.MissingExtraError` and :class:`~streamdec.TokenizerLoadError`. An
    invalid value in the environment is ignored with a warning.

    >>> from streamdec.tokenizers import HybridTokenizer
    >>> tokenizer = HybridTokenizer("path/to/model", fast="off")
    >>> tokenizer.report.active, tokenizer.report.reason
    ('huggingface', 'fastokens is switched off')
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        fast: FastMode | None = None,
        strict: bool = False,
        apply_tokenizer_config: bool | None = None,
    ) -> None:
        options = FastOptions.of(fast, strict=strict)
        self._load(source, options, apply_tokenizer_config=apply_tokenizer_config)

    @classmethod
    def from_file(
        cls,
        path: Path,
        options: FastOptions,
        *,
        apply_tokenizer_config: bool | None,
        is_folder: bool,
        revision: str | None = None,
    ) -> Self:
        """Return the tokenizer of the ``tokenizer.json`` in ``path``.

        Args:
            path: The file, which may have any name.
            options: Checked options.
            apply_tokenizer_config: Whether the files beside ``path`` are read as well; None means
                ``is_folder``.
            is_folder: Whether the caller named the folder of ``path``.
            revision: The commit, for the report.

        Raises the errors of :class:`~streamdec.HuggingFaceTokenizer`.
        """
        self = cls.__new__(cls)
        config = apply_tokenizer_config
        self._load(
            path,
            options,
            apply_tokenizer_config=config,
            is_folder=is_folder,
            revision=revision,
        )
        return self

    def _load(
        self,
        source: str | os.PathLike[str],
        options: FastOptions,
        *,
        apply_tokenizer_config: bool | None,
        is_folder: bool = False,
        revision: str | None = None,
    ) -> None:
        started = perf_counter()
        content, name, path = read_json(source)
        sha256 = self._take(content, name, path, apply_tokenizer_config, is_folder=is_folder)
        is_changed = self.tokenizer_config_changes or self._had_dropout
        content_of = self._as_json if is_changed else lambda: content
        self._report_loading("huggingface", sha256, started, revision, options)
        self._begin_trial(content_of, options)

    @classmethod
    def from_assembled(
        cls,
        made: Assembled,
        path: Path,
        options: FastOptions,
        *,
        form: str,
        revision: str | None = None,
    ) -> Self:
        """Return the tokenizer of a ``tokenizer.json`` that was made in memory.

        Args:
            made: The JSON, and the data that belong to it.
            path: The file that it was made from.
            options: Checked options.
            form: The format of that file, for the report.
            revision: The commit, for the report.

        Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason.
        """
        self = cls.__new__(cls)
        started = perf_counter()
        self._take_assembled(made, path)
        self._report_loading(form, made.sha256, started, revision, options)
        self._begin_trial(self._as_json, options)
        return self

    def _begin_trial(self, content: Callable[[], bytes], options: FastOptions) -> None:
        self._begin(content, options, tokenizer=self._tokenizer, renumbered=self._renumbered)

    def _as_json(self) -> bytes:
        return guarded(self._tokenizer.to_str).encode()

    def _report_loading(
        self,
        form: str,
        sha256: bytes,
        started: float,
        revision: str | None,
        options: FastOptions,
    ) -> None:
        self.report = TokenizerReport(
            format=form,
            requested=options.fast,
            requested_by=options.requested_by,
            active="huggingface",
            reason="fastokens is switched off",
            versions=versions_of(("tokenizers", "fastokens")),
            sha256=sha256.hex(),
            revision=revision,
            seconds={"huggingface": perf_counter() - started},
        )

    def __getstate__(self) -> dict[str, Any]:
        """The library's tokenizer, and how it was loaded."""
        return {
            **super().__getstate__(),
            "options": replace(self._options, strict=False),
            "report": self.report,
            "wants_fast": self._fast is not None or not self._settled.is_set(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.report = state["report"]
        options: FastOptions = state["options"]
        if state["wants_fast"]:
            # Checked again, because another version of fastokens may be installed here.
            self.report = replace(self.report, active="huggingface", guarded="", differing=())
            self._begin_trial(self._as_json, options)
        else:
            self._begin_trial(self._as_json, replace(options, fast="off"))

    # --- encoding ---------------------------------------------------------------------------------

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        found = self._fast_ids(texts, special, add_special_tokens=add_special_tokens)
        if found is not None:
            return found
        slow = super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        self._count(texts)
        return slow

    def slow_ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """Return huggingface's ids of each of ``texts``, four bytes each.

        For comparisons; ``add_special_tokens`` and ``special`` are as for ``encode``. Raises
        :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
        """
        found = super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        return [bytes(Encoding(ids)) for ids in found]

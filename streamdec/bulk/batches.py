"""``BulkDecoder`` appends text to Arrow tables with token ids, in any process.

Libraries that process Arrow batches (Ray Data, Spark, Hugging Face datasets, Polars) pickle it,
send it to their workers, and call it there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa

from streamdec.bulk.arrays import decoded
from streamdec.bulk.column import naming
from streamdec.bulk.stopped_rows import STOPPED
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.errors import SourceError
from streamdec.loading.factory import load_tokenizer
from streamdec.locks import Lock
from streamdec.protocols import Decoder

_loaded: dict[tuple[str, str], Decoder] = {}
"""The tokenizers of this process, by path and options."""
_loading = Lock()


class BulkDecoder:
    """Appends the text of a column of token ids to tables and record batches.

    The new column is ``text``. With ``conditions`` more columns follow: ``finish_reason``,
    ``stop_reason``, ``stop_token_id``, ``token_index``, ``tokens_before``, ``unread_tokens``,
    ``unknown_tokens``; see :func:`~streamdec.bulk.decode_arrow`.

    Args:
        tokenizer: a path or a name for :func:`streamdec.load_tokenizer`, which each process calls
            once; or a tokenizer, which is pickled with this object.
        column: the column of token ids.
        prefix: text before the names of all new columns, for tables that already have columns of
            these names: with ``"new_"``, ``new_text``, ``new_finish_reason`` and so on.
        skip_special_tokens: as for :func:`~streamdec.bulk.decode_arrow`.
        conditions: as for :func:`~streamdec.bulk.decode_arrow`.
        loading: options of ``load_tokenizer``. ``fast`` is ``"off"`` unless you pass it.
        **stops: as for :func:`~streamdec.bulk.decode_arrow`.

    Pass ``decoder`` to ``map_batches`` and ``map``, and ``decoder.batches`` to Spark's
    ``mapInArrow``. ``decoder.decode(table)`` also counts unknown ids. The object is picklable and
    thread-safe. A tokenizer that it loads is cached by path and options until the process ends.

    Raises TypeError if there are options of ``load_tokenizer`` but ``tokenizer`` is already loaded.
    Other arguments are checked where the object is called: the path may exist only there.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import BulkDecoder
    >>> decoder = BulkDecoder(MockTokenizer.from_tokens([b"Hi", b"!"]), "ids")
    >>> decoder(pyarrow.table({"ids": [[0, 1]]})).to_pylist()
    [{'ids': [0, 1], 'text': 'Hi!'}]
    """

    def __init__(
        self,
        tokenizer: str | os.PathLike[str] | Decoder,
        column: str = "token_ids",
        *,
        prefix: str = "",
        skip_special_tokens: bool = True,
        conditions: StopConditions | None = None,
        loading: Mapping[str, Any] | None = None,
        **stops: Unpack[StopOptions],
    ) -> None:
        is_path = isinstance(tokenizer, (str, os.PathLike))
        if loading and not is_path:
            raise TypeError(f"the tokenizer is already loaded; remove {', '.join(loading)}")
        if stops or conditions is not None:
            conditions = conditions_of(conditions, stops)
        self.column = column
        self.columns: list[str] = [f"{prefix}text"]
        """The names of the appended columns, in order."""
        if conditions is not None:
            self.columns = [f"{prefix}{field.name}" for field in STOPPED]
        self._tokenizer = os.fspath(tokenizer) if is_path else tokenizer  # type: ignore[arg-type]
        self._loading = {"fast": "off", **(loading or {})}
        self._skip = skip_special_tokens
        self._conditions = conditions

    @property
    def tokenizer(self) -> Decoder:
        """The tokenizer, loaded at first use. Raises the errors of ``load_tokenizer``."""
        if not isinstance(self._tokenizer, str):
            return self._tokenizer  # type: ignore[return-value]
        key = self._tokenizer, repr(sorted(self._loading.items()))
        with _loading:
            if key not in _loaded:
                _loaded[key] = load_tokenizer(self._tokenizer, **self._loading)
            return _loaded[key]

    def __call__(self, batch: pa.Table | pa.RecordBatch) -> Any:
        """Return ``batch`` with the new columns after its own. See ``decode``."""
        return self.decode(batch)[0]

    def decode(self, batch: pa.Table | pa.RecordBatch, first_row: int = 0) -> tuple[Any, int]:
        """Return ``batch`` with the new columns, and the number of unknown ids that were read.

        Args:
            batch: a table or a record batch; the result has the same type.
            first_row: the number of the first row, in errors.

        Raises:
            SourceError: the column of ids is missing, or a new column exists already.
            TokenIdError: as for ``decode_arrow``. The message names the column.
            TypeError: ``batch`` is neither a table nor a record batch.
        """
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            kind = type(batch).__name__
            hint = "batch_format='pyarrow' of Ray or with_format('arrow') of datasets gives one"
            raise TypeError(f"expected a pyarrow Table or RecordBatch, got {kind}; {hint}")
        self.check_columns(batch.schema.names)
        ids = batch.column(self.column)
        tokenizer = self.tokenizer  # its errors are not about the column
        with naming(f"column {self.column!r}"):
            found, unknown = decoded(ids, tokenizer, self._skip, self._conditions, first_row)
        new = [found] if self._conditions is None else found.flatten()
        for name, values in zip(self.columns, new, strict=True):
            batch = batch.append_column(name, values)
        return batch, unknown

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each of ``batches`` with the new columns; for Spark's ``mapInArrow``.

        Raises the errors of ``decode``, which count rows from 0 in each batch.
        """
        return map(self, batches)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a decoded batch of ``schema``. See ``decode``."""
        return self(schema.empty_table()).schema

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise SourceError if rows with the columns ``names`` cannot be decoded."""
        if self.column not in names:
            there = ", ".join(f"{name!a:.40}" for name in names[:12]) or "none"
            message = f"no column {self.column!r}; the columns are: {there}"
            raise SourceError(f"{message}; choose one with column= (or --column)")
        if names.count(self.column) > 1:
            raise SourceError(f"several columns are called {self.column!r}; rename the others")
        for name in self.columns:
            if name in names:
                raise SourceError(
                    f"there is a column {name!r} already; choose other names for the new columns "
                    "with prefix= (or --prefix), such as 'new_'"
                )

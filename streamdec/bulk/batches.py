"""``BulkDecoder`` appends text to Arrow tables with token ids, in any process.

Libraries that process Arrow batches (Ray Data, Spark, Hugging Face datasets, Polars) pickle it,
send it to their workers, and call it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from streamdec.bulk._pyarrow import pyarrow
from streamdec.bulk.arrays import decoded
from streamdec.bulk.column import row_name
from streamdec.bulk.stopped_rows import stopped_type
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.decode_options import Options, UnknownIds
from streamdec.errors import SourceError, TokenIdError
from streamdec.loading.factory import load_tokenizer
from streamdec.locks import Lock
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    import pyarrow as pa

_loaded: dict[tuple[str, str], Decoder] = {}
"""The tokenizers of this process, by path and options."""
_loading = Lock()


class DecodedTable(NamedTuple):
    """The result of :meth:`BulkDecoder.decode`.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import BulkDecoder
    >>> decoder = BulkDecoder(MockTokenizer.from_tokens([b"Hi", b"!"]), "ids")
    >>> decoder.decode(pyarrow.table({"ids": [[0, 77, 1], [99]]})).unknown_tokens
    2
    """

    table: Any
    """The table or record batch, with the new columns."""
    unknown_tokens: int
    """The number of ids that were read and that the tokenizer does not have."""


class BulkDecoder:
    """Appends the text of a column of token ids to tables and record batches.

    The column ``to`` is the text. With ``conditions`` more columns follow: ``finish_reason``,
    ``stop_reason``, ``stop_token_id``, ``token_index``, ``tokens_before``, ``unread_tokens``,
    ``unknown_tokens``; see :func:`~streamdec.bulk.decode_arrow`.

    Args:
        tokenizer: a path or a name for :func:`streamdec.load_tokenizer`, which each process calls
            once; or a tokenizer, which is pickled with this object.
        column: the column of token ids.
        to: the name of the column of texts.
        prefix: text before the names of all new columns, for tables that already have columns of
            these names. With ``"new_"``, the columns are ``new_text``, ``new_finish_reason`` and
            so on.
        skip_special_tokens: as for :func:`~streamdec.bulk.decode_arrow`.
        unknown_ids: as for :func:`~streamdec.bulk.decode_arrow`.
        conditions: as for :func:`~streamdec.bulk.decode_arrow`.
        loading: options of ``load_tokenizer``, if ``tokenizer`` is a path or a name. ``fast`` is
            ``"off"`` unless you pass it.
        **stops: as for :func:`~streamdec.bulk.decode_arrow`.

    Pass ``decoder`` to ``map_batches`` and ``map``, and ``decoder.batches`` to Spark's
    ``mapInArrow``. ``decoder.decode(table)`` also counts unknown ids. The object is picklable and
    thread-safe. A tokenizer that it loads is cached by path and options until the process ends.

    Raises TypeError if an argument has the wrong type, or if there are options of
    ``load_tokenizer`` but ``tokenizer`` is already loaded. Raises ValueError if two columns would
    have the same name, if ``to`` is empty, or for an unknown value of ``unknown_ids``. The path and
    ``loading`` are checked where the object is called: the path may exist only there.

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
        to: str = "text",
        prefix: str = "",
        skip_special_tokens: bool = True,
        unknown_ids: UnknownIds = "skip",
        conditions: StopConditions | None = None,
        loading: Mapping[str, Any] | None = None,
        **stops: Unpack[StopOptions],
    ) -> None:
        for name, value in (("column", column), ("to", to), ("prefix", prefix)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, not {value!r:.80}")
        if not to:
            raise ValueError("to must be the name of a column, not ''")
        is_path = isinstance(tokenizer, (str, os.PathLike))
        if not is_path and not callable(getattr(tokenizer, "decode", None)):
            told = f"tokenizer must be a path, a name or a tokenizer, not {tokenizer!r:.80}"
            raise TypeError(told)
        if loading and not is_path:
            raise TypeError(
                f"the tokenizer is already loaded; remove the options {', '.join(loading)}, or "
                "pass the path of the tokenizer"
            )
        if stops or conditions is not None:
            conditions = conditions_of(conditions, stops)
        self.column = column
        self.to: str = f"{prefix}{to}"
        self._prefix = prefix
        self._tokenizer = os.fspath(tokenizer) if is_path else tokenizer  # type: ignore[arg-type]
        self._loading = {"fast": "off", **(loading or {})}
        self._options = Options(skip_special_tokens, unknown_ids=unknown_ids)
        self._options.check()
        self._conditions = conditions
        twice = [name for name in self.columns if [*self.columns, column].count(name) > 1]
        if twice:
            raise ValueError(
                f"two columns would be called {twice[0]!r}; choose another name with to="
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.column!r} to {self.to!r}, {self._tokenizer!r:.80}>"

    @property
    def columns(self) -> list[str]:
        """The names of the appended columns, in order. The first is ``to``.

        >>> from streamdec import MockTokenizer
        >>> from streamdec.bulk import BulkDecoder
        >>> BulkDecoder(MockTokenizer(), stop="test").columns[:3]
        ['text', 'finish_reason', 'stop_reason']
        """
        if self._conditions is None:
            return [self.to]
        return [self.to, *(f"{self._prefix}{each.name}" for each in list(stopped_type())[1:])]

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
        return self.decode(batch).table

    def decode(
        self, batch: pa.Table | pa.RecordBatch, name_row: Callable[[int], str] | None = None
    ) -> DecodedTable:
        """Decode ``batch``, and count the ids that the tokenizer does not have.

        Args:
            batch: a table or a record batch; the result has the same type.
            name_row: returns what errors call a row, by its index in ``batch``. By default it is
                "row 7" for the index 7.

        Raises:
            SourceError: the batch does not have the column of ids, or already has a column with
                the name of a new one.
            TokenIdError: as for ``decode_arrow``. The message names the column.
            TypeError: ``batch`` is neither a table nor a record batch.
        """
        ids, names = self._ids(batch), name_row or row_name
        try:
            found = decoded(ids, self.tokenizer, self._options, self._conditions, names)
        except TokenIdError as error:
            told = f"column {self.column!r}: {error}"
            raise type(error)(told, error.token_id, error.index) from None
        for name, values in zip(self.columns, self._parts(found.array), strict=True):
            batch = batch.append_column(name, values)
        return DecodedTable(batch, found.unknown_tokens)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each of ``batches`` with the new columns; for Spark's ``mapInArrow``.

        Raises the errors of ``decode``, which count rows from 0 in each batch. Raises TypeError if
        ``batches`` is a table or a single record batch.
        """
        pa = pyarrow()
        if isinstance(batches, (pa.Table, pa.RecordBatch)):
            kind = type(batches).__name__
            raise TypeError(
                f"batches must be an iterable of record batches, not a {kind}; write "
                "decoder(table), or decoder.batches(table.to_batches())"
            )
        return map(self, batches)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a decoded batch of ``schema``.

        Raises the errors of ``decode``.

        >>> import pyarrow
        >>> from streamdec import MockTokenizer
        >>> from streamdec.bulk import BulkDecoder
        >>> schema = pyarrow.schema({"ids": pyarrow.list_(pyarrow.int32())})
        >>> BulkDecoder(MockTokenizer(), "ids").schema(schema).names
        ['ids', 'text']
        """
        pa = pyarrow()
        return self(pa.table([pa.nulls(0, kind) for kind in schema.types], schema=schema)).schema

    def _ids(self, batch: Any) -> Any:
        pa = pyarrow()
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            raise TypeError(f"expected a pyarrow Table or RecordBatch, got {type(batch).__name__}")
        names = batch.schema.names
        count = names.count(self.column)
        if not count:
            raise no_column(self.column, names)
        if count > 1:
            raise SourceError(f"{count} columns are called {self.column!r}; rename the others")
        check_new(self.columns, names)
        return batch.column(self.column)

    def _parts(self, found: Any) -> list[Any]:
        """Return the columns of the result of ``decode_arrow``."""
        if self._conditions is None:
            return [found]
        pa = pyarrow()
        if isinstance(found, pa.Array):
            return list(found.flatten())
        chunks = [chunk.flatten() for chunk in found.chunks]
        return [
            pa.chunked_array([chunk[place] for chunk in chunks], each.type)
            for place, each in enumerate(found.type)
        ]


_MOST_NAMES = 12
"""The most columns that an error names."""


def no_column(name: str, names: Iterable[str]) -> SourceError:
    """Return the error for rows without the column ``name``.

    The rows have the columns ``names``.
    """
    shown = [*names]
    there = ", ".join(f"{each!a:.40}" for each in shown[:_MOST_NAMES]) or "none"
    if len(shown) > _MOST_NAMES:
        there += f", and {len(shown) - _MOST_NAMES:,} more"
    return SourceError(
        f"no column {name!r}; the columns are: {there}; choose one with the option column"
    )


def check_new(new: Iterable[str], names: Container[str]) -> None:
    """Raise SourceError if one of the ``new`` columns is already in ``names``."""
    for name in new:
        if name in names:
            raise SourceError(
                f"there is a column {name!r} already; choose other names for the new columns with "
                "the option prefix, such as 'new_'"
            )

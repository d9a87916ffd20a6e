"""The error for files and tables that cannot be decoded."""

from __future__ import annotations

from streamdec.errors import StreamdecError


class DatasetError(StreamdecError, ValueError):
    """A file or a table that cannot be read, lacks the column, or already has one of that name.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import BulkDecoder
    >>> BulkDecoder(MockTokenizer(), "ids")(pyarrow.table({"id": [[1, 2]]}))
    Traceback (most recent call last):
        ...
    streamdec.bulk.dataset_error.DatasetError: no column 'ids'; there are: 'id'
    """

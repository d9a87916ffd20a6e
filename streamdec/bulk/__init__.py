"""Datasets of token ids: whole columns of lists, with Arrow (extra ``bulk``).

In: a pyarrow array, a table, or files of rows. Out: the same with texts. Each text equals
``decode`` of its row or, with stops, the text of a StopSequenceDecoder.

    column        checks an array of lists of integers
    gather        turns a column into texts, with a table of the bytes of each id
    stopped_rows  turns a column into texts that end at a stop
    arrays        ``decode_arrow``: with stops or without
    batches       ``BulkDecoder``: a picklable function from table to table, for Ray and Spark
    files         Parquet and JSONL, block by block, in several processes
    rollouts      ``decode_rollouts``: a batch in memory, its ids cut at the stop
"""

from typing import TYPE_CHECKING, Any

from streamdec.bulk.rollouts import Rollout, decode_rollouts
from streamdec.lazy import lazy
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from streamdec.bulk.arrays import decode_arrow
    from streamdec.bulk.batches import BulkDecoder

__all__ = ["BulkDecoder", "Rollout", "decode_arrow", "decode_rollouts"]

_get = lazy(
    __name__, {"streamdec.bulk.arrays": "decode_arrow", "streamdec.bulk.batches": "BulkDecoder"}
)


def __getattr__(name: str) -> Any:
    """Import what needs pyarrow, or say how to install it."""
    if name in __all__:
        library("pyarrow", "bulk", "decoding of datasets needs")
    return _get(name)

"""Datasets of token ids: whole columns of lists, with Arrow (extra ``bulk``).

In: a pyarrow array, a table, or files of rows. Out: the same with texts. Each text equals
``decode`` of its row or, with stops, the text of a StopSequenceDecoder.

    column        checks an array of lists of integers, and flattens it
    gather        turns flat ids into texts, with a table of the bytes of each id
    stopped_rows  turns flat ids into texts that end at a stop
    arrays        ``decode_arrow``: with stops or without
    batches       ``BulkDecoder``: a picklable function from table to table, for Ray and Spark
    lines         rows of JSONL
    files         Parquet, Arrow IPC and JSONL, block by block, in several processes
    rollouts      ``decode_rollouts``: a batch in memory, its ids cut at the stop

One process decodes some ten million tokens a second. For more than one machine, give a
:class:`~streamdec.bulk.BulkDecoder` to Ray Data or Spark.
"""

from streamdec.bulk.arrays import decode_arrow
from streamdec.bulk.batches import BulkDecoder, DecodedTable
from streamdec.bulk.rollouts import Rollout, decode_rollouts

__all__ = [
    "BulkDecoder",
    "DecodedTable",
    "Rollout",
    "decode_arrow",
    "decode_rollouts",
]

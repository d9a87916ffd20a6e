"""Datasets of token ids: whole columns of lists at once, by Arrow (extra ``bulk``).

In: a pyarrow array, a table, or files of rows. Out: the same with text, row by row what
``decode`` gives, or what StopSequenceDecoder gives where stops are asked for.

    column      an array of any kind of lists of integers, checked and flat
    gather      flat ids to texts, by a table of the bytes of each id
    stops       flat ids to texts that end at a stop, and where they end
    arrays      ``decode_arrow``: both of them behind one function
    batches     ``BulkDecoder``: a picklable function from table to table, for Ray, Spark and others
    formats     Parquet, Arrow IPC and JSONL, read and written block by block
    job         one file from beginning to end, or on from where it was killed
    rollouts    ``decode_rollouts``: a batch in memory, its ids cut at the stop
    spans       where each token of a row stands in its text

One process decodes some ten million tokens a second. Whoever has more than one machine gives a
:class:`~streamdec.bulk.BulkDecoder` to Ray Data or Spark, which know how to share work.
"""

from streamdec.bulk.arrays import decode_arrow
from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.errors import DatasetError
from streamdec.bulk.rollouts import Rollout, decode_rollouts

__all__ = ["BulkDecoder", "DatasetError", "Rollout", "decode_arrow", "decode_rollouts"]

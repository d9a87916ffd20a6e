"""The benchmark: what a token costs, beside the library and the detokenizers of engines.

    python -m tests.benchmarks [--suite {streams,bulk,frontend}] [--quick] [--check] [--json FILE]
                               [--tokenizer PATH] [--peers FOLDER] [--case NAME]

The suite *streams* (default) measures decoding and the entry points around it, *bulk* datasets (see
:mod:`tests.benchmarks.bulk_cases`), and *frontend* a whole request, above all its encoding (see
:mod:`tests.benchmarks.frontend`, which has other rules).

With ``--peers`` the detokenizers of vLLM, SGLang, mlx-lm and transformers take part. See
:mod:`tests.benchmarks.peers` for how to fetch them. ``python -m tests.benchmarks.page FILE`` writes
the JSON of such a run into the documentation: tables, pictures, and the JSON itself.

All contestants run in one process, in turns, on the same ids. A ratio compares two times of the
same round, and the median of all rounds is shown. Times are CPU time of the thread, unless a case
says otherwise. Each text that is timed is compared with ``Tokenizer.decode``: a wrong text is a
failure, a slow one is a figure. One character more or less withheld for a stop is a failure, too.
"""

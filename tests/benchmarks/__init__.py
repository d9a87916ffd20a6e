"""The benchmark: what a token costs, beside the library that everyone has.

    python -m tests.benchmarks [--suite {streams,bulk,frontend}] [--quick] [--check] [--json FILE]
                               [--tokenizer PATH] [--peers FOLDER] [--case NAME]

The suite *streams* (default) is about decoding, *bulk* about datasets (see
:mod:`tests.benchmarks.bulk_cases`), *frontend* about all of the way of a request, above all its
encoding; see :mod:`tests.benchmarks.frontend` for what is different there.

With ``--peers`` the detokenizers of vLLM, SGLang, mlx-lm and transformers take part; see
:mod:`tests.benchmarks.peers` for where they come from. ``python -m tests.benchmarks.page FILE``
writes such a run's JSON into the documentation: tables, pictures, and the JSON itself.

All contestants run in one process, in turns, on the same ids; ratios are formed round by round and
their median is given. Times are CPU time of the thread. Whatever is timed is also compared with
``Tokenizer.decode``: a wrong text is a failure, a slow one is a figure. A character too many or too
few that is withheld for a stop is a failure as well.
"""

"""The frontend: from the text of a request to the first text of its answer.

    python -m tests.benchmarks --suite frontend [--quick] [--check] [--json FILE] ...

The cases ``load``, ``scaling``, ``first-token`` and ``async-threads`` compare the hybrid (fastokens
encodes, huggingface decodes) with huggingface alone: by length, by concurrent requests, by batch,
by threads. The other cases are the twelve groups that the SGLang router measures.

Encoders use all cores, so times are of two clocks. Bounds for single calls use the CPU time of the
whole process. Bounds for threads use wall time. On a shared machine, other work stretches the wall
time of a long call more than that of a short one. That would favour the faster encoder, and CPU
time does not have this problem.

- No contestant encodes a text twice, except the three fixed prompts.
- All contestants of a round get the same text.
- Each case begins with new tokenizers, so that cached texts do not help.
- Words repeat in *code* (source of the standard library) and *prose* (its manual), as in any text.
  In *words* each word occurs once.
- The cases ``batch``, ``concurrent-encode``, ``first-token`` and those of threads need more than
  four million characters. They use the same texts again, from another place. Cases with a bound for
  speed do not.
- All ids are compared with those of the library.
"""

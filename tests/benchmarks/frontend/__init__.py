"""The frontend: from the text of a request to the first text of its answer, HF beside the hybrid.

    python -m tests.benchmarks --suite frontend [--quick] [--check] [--json FILE] ...

``load``, ``scaling``, ``first-token`` and ``async-threads`` compare the hybrid (fastokens encodes,
huggingface decodes) with huggingface alone: by length, by requests at the same time, by batch, by
threads. With the others they are the twelve groups that the SGLang router measures.

What encodes uses all cores, so times are of two clocks: processor time of the whole process, on
which bounds stand where one call is compared with another, and the time on the wall, on which they
stand where threads are compared. A machine that others use stretches a long call on the wall more
than a short one, which flatters whoever is fast; processor time does not.

No text is encoded twice by one contestant (but for the prompts that are given word for word), all
contestants of a round get the same one, and each case begins with tokenizers that have seen none,
so that what a library remembers of a text helps nobody. Words come again in *code* (source of the
standard library) and *prose* (its manual) as they do in any text; in *words* none comes twice. The
cases ``batch``, ``concurrent-encode``, ``first-token`` and those of threads use up more than four
million characters, and then begin again a little later; those whose speed has a floor do not. Ids
are compared with those of the library, always.
"""

"""The fast path: fastokens, a faster encoder, if it gives the same ids.

In: a ``tokenizer.json``. Out: a fastokens encoder that passed the trial, or the reason why there is
none. :mod:`streamdec.backends.hybrid` is the tokenizer that uses it.
"""

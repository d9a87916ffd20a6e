"""The fast path: fastokens, a faster encoder, if it gives the same ids.

In: a ``tokenizer.json``, from a file or made from a GGUF or tiktoken vocabulary. Out: a fastokens
encoder that passed the trial, or the reason why there is none.
:mod:`streamdec.backends` has the tokenizers that use it.

Modules::

    fast_path         a tokenizer with a fast path: when the trial runs, and which library encodes
    _fastokens_check  the trial: rules, then a few thousand strings that both libraries encode
    _probes           these rules and strings
    _fastokens        the library
    comparison        both encoders side by side on a text, for streamdec verify
"""

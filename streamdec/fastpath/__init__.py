"""The fast path: fastokens, a faster encoder, if it gives the same ids.

In: a ``tokenizer.json``. Out: a fastokens encoder that passed the trial, or the reason why there is
none. :mod:`streamdec.backends.hybrid` is the tokenizer that uses it.

Modules::

    options           when fastokens is built
    _fastokens_check  the trial: rules, then a few thousand strings that both libraries encode
    _probes           these rules and strings
    _fastokens        the library
"""

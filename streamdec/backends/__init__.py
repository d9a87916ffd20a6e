"""One third-party tokenizer library per file, each imported only when it is asked for.

A backend turns its library into a :class:`streamdec.protocols.Tokenizer`: the library's own
``decode``, and the table behind it. It knows nothing of :mod:`streamdec.core`.
"""

"""One tokenizer library per module, each imported only when it is needed.

A backend turns its library into a :class:`~streamdec.protocols.Tokenizer`: the library's own
``decode``, and the table behind it. Backends do not import the decoders.

The base class is in :mod:`streamdec.tokenizers`. The sections of each backend are opening,
decoding, encoding, the vocabulary.
"""

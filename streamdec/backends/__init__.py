"""One tokenizer library per module, each imported only when it is needed.

A backend turns its library into a :class:`~streamdec.protocols.Tokenizer`: the library's own
``decode``, and the table behind it. Backends do not import the decoders.

Modules::

    huggingface             a tokenizer.json, read by tokenizers, which defines its ids
      _tokenizer_json       reading that file
      _decoder_chain        its decoders as rules
      _huggingface_encoder  its ids and offsets
    hybrid                  a tokenizer.json, encoded by fastokens if it gives the same ids
    tiktoken                rank files
      rank_files            reading them, hashes, and tiktoken's cache
      rank_encodings        which encoding a rank file has
      tekken                Mistral's JSON, encoded by tiktoken
    sentencepiece           a tokenizer.model
    gguf                    a llama.cpp file
      gguf_metadata         reading its keys and values, within bounds
      gguf_cutting          how a text is split, by the name in the file
    transformers_object     a tokenizer of transformers, by its own encode and decode
    mock                    tokenizers for tests, without a library

    caveats                 properties of a tokenizer that surprise people
    library_stream          the library's own decode and stream, for comparisons
    _pieces                 the bytes of a piece, by the rule of its decoder

:mod:`streamdec.tokenizers` has the base class. The sections of each backend are opening, decoding,
encoding, the vocabulary.
"""

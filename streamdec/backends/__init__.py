"""One third-party tokenizer library per file, each imported only when it is asked for.

A backend turns its library into a :class:`~streamdec.Tokenizer`: the library's own
``decode``, and the table behind it. It knows nothing of :mod:`streamdec.core`.

Where what is::

    huggingface     a tokenizer.json by tokenizers, which is the judge of its ids
      _tokenizer_json   that file
      _decoder_chain    its decoders, read as rules
    hybrid          the same, encoded by fastokens where that gives the same ids
      _fastokens      that library
      _trial          whether it is trusted with a file
      _probes         why it may not be, and what is compared before it is
      _shadow         what is compared at run time
      comparison      both side by side on a text, for streamdec verify
      oddities        where text or ids are others than people expect
    tiktoken        rank files
      encodings       how each of them cuts a text, and its special tokens
      rank_files      their lines, hashes, and tiktoken's cache
      tekken          Mistral's JSON, served by tiktoken
    sentencepiece   a tokenizer.model
    gguf            a llama.cpp file
      gguf_metadata   its keys and values, within bounds
      gguf_cutting    how a text is cut, by the name it gives
    mock            tokenizers for tests, by no library

    _derived        what follows from ids and decode: batches, offsets, event loops, a cache
    encoding_cache  that cache
    report          what a tokenizer says of how it was loaded
    _common, _extras, _guard, _lazy, _pieces, _reading, _threads, tokenizer_config
                    shared by several

Each backend has the same outline: opening, decoding, encoding, the vocabulary.
"""

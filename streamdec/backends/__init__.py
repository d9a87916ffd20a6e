"""One tokenizer library per module, each imported only when it is needed.

A backend turns its library into a :class:`~streamdec.Tokenizer`: the library's own ``decode``, and
the table behind it. Backends do not import :mod:`streamdec.core`.

Modules::

    huggingface               a tokenizer.json, read by tokenizers, which defines its ids
      _tokenizer_json         reading that file
      _decoder_chain          its decoders as rules
      apply_tokenizer_config  the files beside it, as transformers 5 applies them
      class_pipelines         classes of transformers that build their tokenizer
      added_vocabulary        its added tokens, for preflight
    folder_tokens             the special and added tokens of a folder, for every format
      declared_tokens         what the files declare
      tokenizer_config        reading those files
      tokenizer_class         the class that transformers chooses
      transformers_facts      its defaults
    assembled                 a tokenizer.json made in memory from other files
      sentencepiece_proto     reading and writing a SentencePiece model
    hybrid                    a tokenizer.json, encoded by fastokens if it gives the same ids
    fast_path                 the trial of fastokens, for every backend
      _fastokens              that library
      _fastokens_check        whether it may be used for a file
      _probes                 the rules and strings of that check
      comparison              both encoders side by side, for streamdec verify
    caveats                   properties of a tokenizer that surprise people
    library_stream            the library's own decode and stream, for comparisons
    tiktoken                  rank files
      encodings               the regex and special tokens of each known rank file
      rank_files              reading them, hashes, and tiktoken's cache
      rank_encodings          which encoding a rank file has
      tekken                  Mistral's JSON, encoded by tiktoken
    sentencepiece             a tokenizer.model
    gguf                      a llama.cpp file
      gguf_metadata           reading its keys and values, within bounds
      gguf_cutting            how a text is split, by the name in the file
    mock                      tokenizers for tests, without a library

    _base                     what follows from ids and decode: batches, offsets, async calls
      _chat                   chat templates of a tokenizer
      _instrumented           calls that hooks receive
      _threads                threads for long texts
      encoding_cache          a cache of encodings
      report                  the report of a loaded tokenizer
    _common, _extras, _pieces, _reading
                              shared by several

The sections of each backend are opening, decoding, encoding, the vocabulary.
"""

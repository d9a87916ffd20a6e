"""What a model's files say about its tokenizer, as transformers 5 reads them.

In: the files beside a vocabulary, such as ``tokenizer_config.json``. Out: the special and added
tokens, the tokenizer class, and what this class builds. transformers is not imported, and
code of the folder is never run. Loading, chat templates and ``streamdec.preflight`` share these
modules, so they cannot disagree about a token.

Modules::

    folder_tokens           the special and added tokens of a folder, for every format
      declared_tokens       what the files declare
      tokenizer_class       the class that transformers chooses
      tokenizer_config      reading the files
    apply_tokenizer_config  a tokenizer.json with these tokens
      class_pipelines       the classes that build their tokenizer
    assembled               a tokenizer.json made in memory from other files
      sentencepiece_proto   reading and writing a SentencePiece model
    transformers_facts      the defaults of transformers, by class and by type of model
"""

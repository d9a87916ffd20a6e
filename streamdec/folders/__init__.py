"""What a model's files say about its tokenizer, as transformers 5 reads them.

In: the files beside a vocabulary, such as ``tokenizer_config.json``. Out: the special and added
tokens, the tokenizer class, and what this class builds. transformers is not imported, and
code of the folder is never run. Loading, chat templates and ``streamdec.preflight`` share these
modules, so they cannot disagree about a token.
"""

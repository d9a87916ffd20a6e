"""Our stream in the place of that of the ``tokenizers`` library."""

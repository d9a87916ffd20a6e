"""What each token id gives in each state: tables that all streams of a tokenizer share."""

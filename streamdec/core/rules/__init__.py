"""How each kind of decoder turns token ids into bytes."""

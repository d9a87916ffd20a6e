"""Where people use it: engines and wire formats, one file for each."""

"""The machines: no I/O, no clock, no third-party library."""

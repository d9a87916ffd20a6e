"""The laws of streamdec, tried for as long as one likes; see README.md."""

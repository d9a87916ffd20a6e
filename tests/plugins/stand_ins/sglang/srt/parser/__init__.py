"""A part of a stand-in."""

"""Engines and clients, each with the real one.

What is light runs with the rest of the suite. The tests of heavy engines are skipped where these
are not installed. A session of nox for each group of engines installs them and runs their tests,
such as ``nox -s engines`` for transformers and mlx-lm.
"""

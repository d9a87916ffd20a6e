"""Datasets: columns, tables and files of token ids.

Polars, Hugging Face datasets and Ray are tested where they are installed: ``nox -s datasets ray``
installs them.
"""

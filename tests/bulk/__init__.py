"""Datasets: columns, tables and files of token ids.

Polars, Hugging Face datasets, Ray and Spark are tested where they are installed: ``nox -s datasets
ray spark`` installs them.
"""

"""Engines and clients, each with the real one.

What is light runs with the rest of the suite. The tests of heavy engines are skipped where these
are not installed; dependency groups have them, for which pip must be 25.1 or newer:

    pip install --group engines && pytest tests/integrations/{transformers,mlx_lm}
    pip install --group llama-cpp && pytest tests/integrations/llama_cpp
"""

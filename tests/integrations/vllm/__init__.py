"""vLLM's own front half, in the dependency group ``vllm``.

Its wheel wants a GPU's libraries, of which the front half (output processor, detokenizers, output
classes) needs none: the wheel goes in without its dependencies, torch as built for the CPU::

    pip install --no-deps vllm==0.33.0
    pip install -e '.[test]' --group vllm && pytest tests/integrations/vllm
"""

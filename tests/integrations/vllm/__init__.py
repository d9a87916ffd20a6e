"""vLLM's own front end (output processor, detokenizers, output classes): ``nox -s vllm``.

It runs on a CPU, without most of the dependencies of vLLM's wheel.
"""

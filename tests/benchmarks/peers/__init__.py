"""The peers: what other engines and libraries do with the same ids, run beside streamdec.

    python -m tests.benchmarks.peers FOLDER         fetches them (about 700 MB)
    python -m tests.benchmarks --peers FOLDER       runs them with all the rest

torch, without which transformers' StopStringCriteria is left out, is not fetched:
``pip install --target FOLDER/site torch`` adds it.

Their code is read out of their published wheels at run time; none of it is kept here. Of a file
only the definitions that turn ids into text are run, with stand-ins for the rest of an engine: no
GPU, no sockets, no request objects but their fields. What is timed is therefore less than what the
peer does.
"""

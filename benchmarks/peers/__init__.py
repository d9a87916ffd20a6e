"""The peers: other engines and libraries that decode the same ids, measured beside streamdec.

    python -m benchmarks.peers FOLDER         installs them (about 700 MB)
    python -m benchmarks --peers FOLDER       measures them with all other cases

The code of the peers is read from their published wheels at run time, and not copied. Only the
definitions that turn ids into text are run. Stand-ins replace the rest of an engine: there is no
GPU, no socket, and of request objects only the fields. So a peer does less here than in service.
"""

"""Run vLLM's own tests of its detokenizer twice, without the plugin and with it.

    tar xzf vllm-0.33.0.tar.gz
    python plugins/vllm/run_vllm_tests.py vllm-0.33.0 path/to/model

The tests are in vLLM's source archive. Download it from the page of vLLM on the package index
(``pip download`` would try to build it).

``path/to/model`` is a folder with a ``config.json`` and a tokenizer. It takes the place of the
models that the tests name, because those would have to be downloaded. The outcome of each test must
be the same with the plugin as without it. Otherwise the script exits with status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

MODEL = "STREAMDEC_TEST_MODEL"
FILES = (
    "tests/v1/engine/test_output_processor.py",
    "tests/v1/engine/test_fast_incdec_prefix_err.py",
    "tests/detokenizer/test_check_stop_strings.py",
    "tests/tokenizers_/test_detokenize.py",
)


def pytest_load_initial_conftests() -> None:
    """Use the local model in the process of pytest.

    pytest loads this module as a plugin.
    """
    import transformers
    from vllm.engine.arg_utils import EngineArgs
    from vllm.plugins import load_general_plugins

    vars(import_module("tests.v1.engine.utils"))["TOKENIZER_NAME"] = os.environ[MODEL]
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.environ[MODEL])
    transformers.AutoTokenizer.from_pretrained = lambda *_, **__: tokenizer
    EngineArgs.create_engine_config = lambda *_, **__: None  # it needs a GPU
    load_general_plugins()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip the tests of Mistral's own tokenizer, and vLLM's clean-up of GPU memory."""
    import pytest

    items[:] = [item for item in items if "mistral" not in item.name.lower()]
    for item in items:
        item.add_marker(pytest.mark.skip_global_cleanup)


def outcomes(folder: Path, model: Path, switch: str) -> dict[str, str]:
    """The outcome of each test."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        here = str(Path(__file__).resolve().parent)
        environment = {
            **os.environ,
            "STREAMDEC_VLLM": switch,
            MODEL: str(model.resolve()),
            "PYTHONPATH": os.pathsep.join([here, str(folder.resolve())]),
            "HF_HUB_OFFLINE": "1",
        }
        options = ["-q", "-p", Path(__file__).stem, "-p", "no:cacheprovider", "-p", "no:xdist"]
        there_are = [name for name in FILES if (folder / name).exists()]
        command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *there_are]
        subprocess.run(command, cwd=folder, env=environment, check=False)
        return {
            f"{case.get('classname')}.{case.get('name')}": next(
                (part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed"
            )
            for case in ET.parse(report).iter("testcase")
        }


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="vLLM's unpacked source archive")
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    without = outcomes(options.folder, options.model, "off")
    with_plugin = outcomes(options.folder, options.model, "on")
    different = sorted(
        name for name in without | with_plugin if without.get(name) != with_plugin.get(name)
    )
    for name in different:
        print(f"{name}: {without.get(name)} without the plugin, {with_plugin.get(name)} with it")
    counts = {kind: [*with_plugin.values()].count(kind) for kind in {*with_plugin.values()}}
    print(f"{len(with_plugin)} tests, with the plugin: {counts}; {len(different)} differ")
    return 1 if different or not with_plugin else 0


if __name__ == "__main__":
    sys.exit(main())

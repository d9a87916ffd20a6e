"""Writes ``streamdec/folders/transformers_facts.json``: what transformers has as defaults.

Run it with the newest transformers and the libraries that its tokenizers need (sentencepiece,
sacremoses, mistral-common; not torch). A class that cannot be imported is written as ``unknown``.
Name a Python that has 4.57, which is asked for its tokenizer classes::

    python scripts/make_transformers_facts.py --v4-python /path/to/python

Facts alone are kept: names and ids, read by importing the library and instantiating each
configuration class without arguments.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import logging
import pkgutil
import subprocess
import sys
import warnings
from itertools import takewhile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "streamdec" / "folders" / "transformers_facts.json"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
DECODES = {"_decode", "decode", "convert_tokens_to_string"}
"""Methods of a class that decodes in its own way."""
TEXT = ("thinker_config", "llm_config", "language_config", "text_config")
NAMES = """
import json, re, transformers
from pathlib import Path
names = {"PreTrainedTokenizer", "PreTrainedTokenizerFast"}
for path in Path(transformers.__file__).parent.glob("**/tokenization_*.py"):
    source = path.read_text("utf-8")
    names |= set(re.findall(r"^class (\\w*(?:Tokenizer|Backend)(?:Fast)?)\\b", source, re.M))
print(json.dumps(sorted(names)))
"""
"""Also the classes that cannot be imported where their libraries are missing."""


def tokenizer_classes(base: type) -> dict[str, type]:
    """All tokenizer classes of the library by name."""
    models = importlib.import_module("transformers.models")
    for module in pkgutil.iter_modules(models.__path__):
        package = importlib.import_module(f"transformers.models.{module.name}")
        for inner in pkgutil.iter_modules(package.__path__):
            if inner.name.startswith("tokenization_"):
                try:
                    importlib.import_module(f"transformers.models.{module.name}.{inner.name}")
                except Exception:  # noqa: BLE001 - a library is missing
                    print(f"not imported: {inner.name}", file=sys.stderr)
    found: dict[str, type] = {}
    waiting = [base]
    while waiting:
        cls = waiting.pop()
        found[cls.__name__] = cls
        waiting += cls.__subclasses__()
    return found


def roles_of(cls: type) -> dict[str, str | None]:
    """The role tokens that a class has by itself.

    If ``pad_token`` is None, the class has none, and that of a ``tokenizer.json`` is ignored.
    """
    found: dict[str, str | None] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in ROLES and parameter.default not in (None, inspect.Parameter.empty):
            found[name] = str(parameter.default)
        elif name == "pad_token":
            found[name] = None
    return found


def class_names(python: str) -> list[str]:
    """The names of all tokenizer classes of the transformers that ``python`` has."""
    result = subprocess.run([python, "-c", NAMES], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(result.stdout.splitlines()[-1])
    return names


def name_of(name: str) -> str | None:
    """The class that ``AutoTokenizer`` takes under a name; None if there is none."""
    auto = importlib.import_module("transformers.models.auto.tokenization_auto")
    try:
        cls = auto.tokenizer_class_from_name(name)
    except (ImportError, AttributeError):
        return name  # it needs a library that is not here
    return None if cls is None else str(cls.__name__)


def own_classes(cls: type) -> list[type]:
    """Return the class and its bases up to the one that all fast tokenizers share."""
    return list(takewhile(lambda one: one.__name__ != "TokenizersBackend", cls.__mro__))


def facts_of_class(cls: type, fast: type) -> list[Any]:
    """How it comes by its tokenizer, and its role tokens."""
    if not issubclass(cls, fast):
        return ["python", roles_of(cls)]
    own = own_classes(cls)
    how = "decodes" if any(DECODES & vars(one).keys() for one in own) else "reads"
    if any("__init__" in vars(one) for one in own):
        source = "".join(inspect.getsource(one) for one in own)
        is_special = "all_special_tokens" in source or "_post_init" in source
        how = "builds-special" if is_special else "builds"
        if "__init__" not in vars(cls):  # transformers gives it the whole tokenizer.json
            how = "inherits"
    return [how, roles_of(cls)]


def eos_of(config: Any) -> Any:
    """The attribute of a configuration, or ``absent`` if it has none of that name."""
    return getattr(config, "eos_token_id", None) if hasattr(config, "eos_token_id") else "absent"


def config_defaults() -> dict[str, list[Any]]:
    """Model type to the ids that end a sequence: of the whole, and of its named text part."""
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    found: dict[str, list[Any]] = {}
    for model_type in sorted(auto.CONFIG_MAPPING_NAMES):
        try:
            config = auto.CONFIG_MAPPING[model_type]()
        except Exception as error:  # noqa: BLE001 - it has no defaults
            print(f"{model_type}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        top = eos_of(config)
        name = next((n for n in TEXT if getattr(config, n, None) is not None), "")
        inner = getattr(config, name, None) if name else None
        inner = getattr(inner, "text_config", None) or inner
        found[model_type] = [top] if inner is None else [top, eos_of(inner), name]
    return found


def main() -> None:
    """Reads and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--v4-python", required=True)
    v4_python = parser.parse_args().v4_python
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers = importlib.import_module("transformers")
    base = importlib.import_module("transformers.tokenization_utils_base").PreTrainedTokenizerBase
    fast = importlib.import_module("transformers.tokenization_utils_tokenizers").TokenizersBackend
    auto = importlib.import_module("transformers.models.auto.tokenization_auto")
    classes = tokenizer_classes(base)
    facts = {
        "about": "Names and ids of transformers (Apache-2.0): scripts/make_transformers_facts.py",
        "transformers": transformers.__version__,
        "classes": {
            **{name: ["unknown", {}] for name in class_names(sys.executable) if name_of(name)},
            **{name: facts_of_class(cls, fast) for name, cls in sorted(classes.items())},
        },
        "aliases": {
            name: found
            for name in class_names(v4_python)
            if (found := name_of(name)) and found != name.removesuffix("Fast")
        },
        "class_of_model": {k: v for k, v in sorted(auto.TOKENIZER_MAPPING_NAMES.items()) if v},
        "wrong_class": sorted(auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS),
        "wrong_ids": sorted(auto.MODEL_IDS_TO_TOKENIZERS_BACKEND),
        "classes_of_v4": class_names(v4_python),
        "eos_of_config": config_defaults(),
    }
    lines = (
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in facts.items()
    )
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()

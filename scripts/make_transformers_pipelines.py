"""Write ``streamdec/folders/transformers_pipelines.json``: how classes build their tokenizer.

    python scripts/make_transformers_pipelines.py TOKENIZER_JSON

Needs the newest transformers (no torch). Some tokenizer classes take only the vocabulary and the
merges of a ``tokenizer.json``; everything else is fixed by the class and by a few options of
``tokenizer_config.json``. Each class is instantiated with placeholders for its role tokens and with
every combination of those options, and the parts of the tokenizer that it built are written down.
``TOKENIZER_JSON`` is any file with a precompiled charsmap, such as T5's.

The classes are all that build a tokenizer from such arguments. Then
``scripts/make_tokenizer_matrix.py`` and ``scripts/make_class_goldens.py`` find those that are not
equal, which are excluded here.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import inspect
import json
import logging
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

from make_transformers_facts import DECODES, ROLES, own_classes, tokenizer_classes
from make_transformers_facts import TARGET as FACTS

TARGET = Path(__file__).parent.parent / "streamdec" / "folders" / "transformers_pipelines.json"
OPTIONS = (
    *("add_prefix_space", "do_lower_case", "strip_accents", "tokenize_chinese_chars"),
    *("keep_accents", "remove_space", "legacy", "trim_offsets", "clean_text", "split_by_punct"),
)
PARTS = ("normalizer", "pre_tokenizer", "decoder")
MODEL = (
    *("type", "dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges"),
    *("continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word"),
    "unk_id",
)
LETTERS = ("a", "b", "\u2581")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
OTHER = {
    *("HerbertTokenizer", "LayoutLMv2Tokenizer", "LayoutLMv3Tokenizer", "LayoutXLMTokenizer"),
    *("MBartTokenizer", "MBart50Tokenizer"),  # ids of codes that are not in the vocabulary
    # Tokens around a text depend on the file.
    *("RemBertTokenizer", "SeamlessM4TTokenizer", "UdopTokenizer"),
    *("BigBirdTokenizer", "PegasusTokenizer"),  # not tried
}
"""Classes whose tokenizers are not equal, as ``scripts/make_tokenizer_matrix.py`` finds, or that
were not tried."""
HARMLESS = {
    *("vocab", "merges", "vocab_file", "merges_file", "_spm_precompiled_charsmap"),
    *("clean_up_tokenization_spaces", "use_default_system_prompt", "errors", "entity_vocab"),
    *("model_max_length", "return_token_type_ids", "token_type_ids_pattern"),
    *("max_entity_length", "max_mention_length"),
    *("additional_special_tokens", "extra_special_tokens", "add_bos_token", "add_eos_token"),
}
"""Parameters that change neither ids nor text, or whose tokens streamdec adds itself."""
OWN_DECODE = ("CLIPTokenizer", "CodeGenTokenizer")
"""Classes whose own way to decode is imitated; that of CodeGen only has more options."""


def class_names() -> list[str]:
    """Return the names of the classes that build a tokenizer and are tried."""
    classes = json.loads(FACTS.read_text("utf-8"))["classes"]
    made = ("builds", "builds-special", "inherits")
    return [n for n, (how, _) in classes.items() if how in made and n not in OTHER]


def placeholder(role: str) -> str:
    """Return the text that stands for the token of a role."""
    return f"{{{role}}}"


def parameters_of(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of the class and, as it passes ``**kwargs`` on, of its bases."""
    found: dict[str, inspect.Parameter] = {}
    for one in own_classes(cls):
        if "__init__" in vars(one):
            for parameter in inspect.signature(one).parameters.values():
                found.setdefault(parameter.name, parameter)
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return {name: parameter for name, parameter in found.items() if parameter.kind in named}


def with_texts(made: Any, post_processor: Any) -> Any:
    """Return JSON of a post-processor with the texts of ids, which are not those of a file."""
    for key in ("sep", "cls"):
        if key in (post_processor or {}):
            post_processor[key][1] = made.convert_ids_to_tokens(post_processor[key][1])
    for name, token in (post_processor or {}).get("special_tokens", {}).items():
        is_unknown = token["ids"] == [made.convert_tokens_to_ids(name)]
        token["ids"] = [name] if is_unknown else made.convert_ids_to_tokens(token["ids"])
    return post_processor


class Maker:
    """Instances of one class."""

    def __init__(self, cls: Any, charsmap: str) -> None:
        self.cls = cls
        self.kind = cls.model.__name__
        self.charsmap = charsmap
        self.parameters = inspect.signature(cls).parameters

    def arguments(self) -> dict[str, Any]:
        """Return a vocabulary of placeholders, and what else the class needs."""
        roles = [role for role in ROLES if role in self.parameters]
        names = [*map(placeholder, roles), *LETTERS]
        vocab: Any = {name: i for i, name in enumerate(names)}
        if self.kind == "Unigram":
            vocab = [(name, 0.0) for name in (*LETTERS, *names[: len(roles)])]
        arguments: dict[str, Any] = {"vocab": vocab}
        if self.kind == "BPE":
            arguments["merges"] = []
        if "_spm_precompiled_charsmap" in self.parameters:
            arguments["_spm_precompiled_charsmap"] = base64.b64decode(self.charsmap)
        return arguments

    def built(self, options: dict[str, Any]) -> Any:
        """Return an instance whose role tokens are placeholders."""
        roles = [role for role in ROLES if role in self.parameters]
        given = {r: placeholder(r) for r in roles if self.parameters[r].default is not None}
        return self.cls(**self.arguments(), **given, **options)

    def parts(self, made: Any) -> dict[str, Any]:
        """Return the parts of the tokenizer inside ``made``."""
        text = made._tokenizer.to_str().replace(self.charsmap, "{charsmap}")
        data: dict[str, Any] = json.loads(text)
        return data

    def pipeline(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what the class builds, without the vocabulary."""
        data = self.parts(self.built(options))
        found = {part: data[part] for part in PARTS}
        model = data["model"]
        found["model"] = {key: model[key] for key in MODEL if key in model}
        if model["type"] == "Unigram":
            name, _ = model["vocab"][model["unk_id"]]
            if name == placeholder("unk_token"):  # it looks for the id of the text
                found["model"]["unk_id"] = None
        return found

    def pipelines(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the options that matter, and the pipeline for each combination of them."""
        asked = [name for name in OPTIONS if name in self.parameters]
        values = [list(dict.fromkeys((self.parameters[n].default, True, False))) for n in asked]
        found = {
            combination: self.pipeline(dict(zip(asked, combination, strict=True)))
            for combination in product(*values)
        }
        matters = [
            index
            for index in range(len(asked))
            if any(
                found[c] != found[*c[:index], value, *c[index + 1 :]]
                for c in found
                for value in values[index]
            )
        ]
        kept = {tuple(c[i] for i in matters): pipeline for c, pipeline in found.items()}
        options = {asked[i]: self.parameters[asked[i]].default for i in matters}
        return options, [[list(key), pipeline] for key, pipeline in kept.items()]

    def others(self) -> dict[str, Any]:
        """Return the defaults of all other parameters that may change what the class builds."""
        known = {*HARMLESS, *(set(ROLES + OPTIONS) & set(self.parameters))} - {"trim_offsets"}
        return {
            name: parameter.default
            for name, parameter in parameters_of(self.cls).items()
            if name not in known and (name in ROLES or not name.endswith("_token"))
        }

    def adds_again(self) -> str:
        """Return how special tokens are added again: ``given``, ``plain``, or not (``""``)."""
        source = "".join(map(inspect.getsource, own_classes(self.cls)))
        plain = "plain" if "all_special_tokens" in source else ""
        return "given" if "_post_init" in source else plain

    def facts(self) -> dict[str, Any]:
        """Return everything about the class."""
        options, pipelines = self.pipelines()
        plain = importlib.import_module("tokenizers").processors.Sequence([])
        made = self.built({})
        with_file = self.built({"post_processor": plain})
        named = set(map(placeholder, ROLES))
        roles = {r: t for r, t in made._special_tokens_map.items() if t and not isinstance(t, str)}
        return {
            "options": options,
            "pipelines": pipelines,
            "others": self.others(),
            "post_processor": with_texts(made, self.parts(made)["post_processor"]),
            "keeps_post_processor": (
                self.parts(with_file)["post_processor"] == {"type": "Sequence", "processors": []}
            ),
            "adds_again": self.adds_again(),
            "flags": {r: {flag: getattr(t, flag) for flag in FLAGS} for r, t in roles.items()},
            "added": [
                t.content for t in made.added_tokens_decoder.values() if t.content not in named
            ],
        }


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path)
    content = parser.parse_args().file.read_text("utf-8")
    charsmap = content.partition('"precompiled_charsmap":')[2].lstrip().split('"')[1]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers = importlib.import_module("transformers")
    fast = importlib.import_module("transformers.tokenization_utils_tokenizers").TokenizersBackend
    classes = tokenizer_classes(fast)
    found = {}
    for name in class_names():
        own = {key for one in own_classes(classes[name]) for key in vars(one)}
        if own & DECODES and name not in OWN_DECODE:
            print(f"{name}: it decodes in its own way", file=sys.stderr)
            continue
        try:
            found[name] = Maker(classes[name], charsmap).facts()
        except Exception as error:  # noqa: BLE001 (a class with other arguments)
            print(f"{name}: {type(error).__name__}: {error!s:.80}", file=sys.stderr)
    lines = (f"{json.dumps(name)}: {_compact(value)}" for name, value in found.items())
    text = f'{{"transformers": "{transformers.__version__}",\n' + ",\n".join(lines) + "\n}\n"
    TARGET.write_text(text, "utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()

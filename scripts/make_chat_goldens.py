"""Write the goldens: what transformers renders for the cases of ``tests/chat/cases.py``.

    pip install 'transformers==5.19.0' 'jinja2>=3.1.6'
    python scripts/make_chat_goldens.py classic
    pip install 'transformers==5.24.0'
    python scripts/make_chat_goldens.py hardened

Each run replaces the answers of one profile in ``tests/chat/data/goldens.json``. With ``--compare``
nothing is written, and what the installed version has otherwise is printed: that is how one sees
which versions a profile stands for. No weights and no torch are needed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.chat import cases  # noqa: E402 - the folder of the project is not installed here

VERSIONS = {"classic": "5.19.0", "hardened": "5.24.0"}
"""The version that a profile is made with."""


class FrozenClock(dt.datetime):
    """The time that templates get."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:  # noqa: ARG003 - as the class has it
        """Always the same time."""
        return cls(*cases.NOW)


def tokenizer_of(template: Any) -> Any:
    """A tokenizer of transformers that has ``template`` and hardly any words."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"a": 0, **{token: i for i, token in enumerate(cases.TOKENS.values(), 1)}}
    library = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    made = PreTrainedTokenizerFast(tokenizer_object=library, **cases.TOKENS)
    made.chat_template = template
    return made


@contextmanager
def watched_spans() -> Iterator[list[Any]]:
    """Have every rendering look for spans; what was found is in the list."""
    from transformers import tokenization_utils_base as base

    render: Any = base.render_jinja_template
    utils: Any = sys.modules[render.__module__]
    clock, found = utils.datetime, []

    def watching(**options: Any) -> Any:
        wants = not options.get("continue_final_message")
        text, spans = render(**{**options, "return_assistant_tokens_mask": wants})
        found.append(spans[0] if wants else None)
        return text, spans

    base.render_jinja_template = watching
    utils.datetime = FrozenClock
    try:
        yield found
    finally:
        base.render_jinja_template, utils.datetime = render, clock


def answer(case: cases.Case) -> dict[str, Any]:
    """Return what transformers renders for ``case``: the text and its spans, or an error."""
    from jinja2.exceptions import TemplateError

    messages, options = cases.call_of(case)
    try:
        with watched_spans() as found:
            made = tokenizer_of(cases.template_of(case))
            text = made.apply_chat_template(messages, tokenize=False, **options)
    except Exception as error:  # noqa: BLE001 - that it failed is the answer
        said = str(error) if type(error) is TemplateError else None
        return {"error": type(error).__name__, "said": said}
    return {"output": text, "spans": found[-1]}


def snapshot_answer(files: dict[str, Any]) -> dict[str, Any]:
    """The template and the special tokens that transformers finds in a folder with ``files``."""
    from tokenizers import Tokenizer, models
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {"tokenizer_class": "PreTrainedTokenizerFast"}
        for path, content in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            if isinstance(content, str):
                (folder / path).write_bytes(content.encode())
            else:
                config = {**usual, **content} if path == "tokenizer_config.json" else content
                (folder / path).write_text(json.dumps(config), encoding="utf-8")
        vocabulary = {"a": 0, "<|endoftext|>": 1}
        library = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        library.save(str(folder / "tokenizer.json"))
        (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
        made = AutoTokenizer.from_pretrained(folder)
        tokens = {role: str(token) for role, token in made.special_tokens_map.items()}
        return {"chat_template": made.chat_template, "special_tokens": tokens}


def answers() -> dict[str, dict[str, Any]]:
    """All answers, by group and case."""
    asked: dict[str, dict[str, tuple[Callable[..., Any], Any]]] = {
        "cases": {name: (answer, case) for name, case in cases.all_cases()},
        "snapshots": {name: (snapshot_answer, files) for name, files in cases.SNAPSHOTS.items()},
    }
    return {
        group: {name: ask(case) for name, (ask, case) in members.items()}
        for group, members in asked.items()
    }


def main() -> int:
    """Write the goldens of one profile, or compare them."""
    import transformers

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile", choices=VERSIONS)
    parser.add_argument("--compare", action="store_true", help="print differences, write nothing")
    arguments = parser.parse_args()
    if not arguments.compare and transformers.__version__ != VERSIONS[arguments.profile]:
        wanted = VERSIONS[arguments.profile]
        print(f"transformers {wanted} is wanted, and {transformers.__version__} is installed")
        return 2
    found = answers()
    goldens: dict[str, Any] = {}
    if cases.GOLDENS.exists():
        goldens = json.loads(cases.GOLDENS.read_text(encoding="utf-8"))
    if arguments.compare:
        return compared(goldens, found, arguments.profile)
    goldens.setdefault("transformers", {})[arguments.profile] = transformers.__version__
    for group, members in found.items():
        kept = goldens.get(group, {})
        goldens[group] = {
            name: {**kept.get(name, {}), arguments.profile: told} for name, told in members.items()
        }
    text = json.dumps(goldens, ensure_ascii=True, indent=1, sort_keys=True)
    cases.GOLDENS.write_text(text + "\n", encoding="utf-8")
    return 0


def compared(goldens: dict[str, Any], found: dict[str, dict[str, Any]], profile: str) -> int:
    """Print what is otherwise than in the goldens; 1 if there is anything."""
    count = 0
    for group, members in found.items():
        for name, told in members.items():
            golden = goldens[group][name][profile]
            if json.loads(json.dumps(told)) != golden:
                count += 1
                print(f"{group}, {name}:\n  golden {golden}\n  found  {told}")
    print(f"{count} differ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

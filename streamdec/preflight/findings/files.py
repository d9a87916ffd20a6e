"""Rules about files: what cannot be read, what is missing, and which class makes the tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamdec.preflight.facts import ONLY_V5, facts
from streamdec.preflight.report import Evidence, Finding, Reference, Rule
from streamdec.preflight.snapshot import Problem
from streamdec.preflight.tokenizer_class import auto_map_of
from streamdec.preflight.view import View

__all__ = ["check"]

_CONFIG = "tokenizer_config.json"
_OBJECTS = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.json"),
    *("hf_quant_config.json", "processor_config.json", "preprocessor_config.json"),
)
"""Files that are JSON objects and that engines read; also those of which nothing else is asked."""
_JSON = "tokenizer.json"
_LOADED = ("transformers", "vllm", "sglang")
_ALL = (*_LOADED, "dynamo", "smg", "mlx-lm")
_AUTO = Reference("transformers", "5.23.0", "models/auto/tokenization_auto.py")
_AUTO_4 = Reference("transformers", "4.57.6", "models/auto/tokenization_auto.py")
_BASE = Reference("transformers", "5.23.0", "tokenization_utils_base.py")
_GENERATE = Reference("transformers", "5.23.0", "generation/configuration_utils.py")

INVALID_JSON = Rule(
    "FILE_INVALID_JSON",
    "error",
    "a file is no JSON for Python's reader, or not the object that it should be (a byte order mark "
    "fails, Infinity and NaN pass)",
    _ALL,
    "Correct the file. A broken generation_config.json counts as absent for transformers, vLLM and "
    "SGLang.",
    (_GENERATE, _BASE),
)
LFS_POINTER = Rule(
    "FILE_LFS_POINTER",
    "error",
    "a file is a pointer of git-lfs and not the file",
    _ALL,
    "Fetch it: git lfs pull, or download the snapshot anew.",
    (_BASE,),
)
TOO_LARGE = Rule(
    "FILE_TOO_LARGE",
    "error",
    "a file is larger than any of its kind, and was not read",
    _ALL,
    "Look at what it is; nothing of it is in this report.",
)
OUTSIDE = Rule(
    "FILE_OUTSIDE_FOLDER",
    "error",
    "a file is a link that leads out of the folder (and not to the blobs of the hub's cache), and "
    "was not followed",
    _ALL,
    "An engine would follow it. Put the file itself there.",
)
UNREADABLE = Rule(
    "FILE_UNREADABLE",
    "error",
    "a file cannot be read: no permission, a link to nothing, no regular file, or a template that "
    "is not UTF-8",
    _ALL,
    "Put a readable file there.",
)
NOT_A_TOKENIZER = Rule(
    "TOKENIZER_JSON_INVALID",
    "error",
    "tokenizer.json is JSON, and the tokenizers library does not read it; or it has, with the "
    "files beside it, more than 100,000 added tokens or 2,097,152 characters of them, and was not "
    "tried",
    _ALL,
    "Save it anew; a newer library may be needed.",
    (Reference("tokenizers", "0.22", "tokenizers/src/tokenizer/serialization.rs"),),
)
JSON_MISSING = Rule(
    "TOKENIZER_JSON_MISSING",
    "info",
    "there is no tokenizer.json",
    _ALL,
    "transformers 5 may build an empty tokenizer whose ids begin at 0: never take ids from such a "
    "load.",
    (_BASE, _AUTO),
    or_severity="error if there is nothing else of which a tokenizer can be built",
)
REQUIRES_V5 = Rule(
    "TOKENIZER_CLASS_REQUIRES_V5",
    "info",
    "tokenizer_class is one that transformers has since 5.0",
    ("transformers<5.0",),
    "transformers before 5.0 fails with ValueError: Tokenizer class … does not exist. Serve with "
    "5.0 or later, or declare PreTrainedTokenizerFast.",
    (_AUTO_4, _AUTO),
    or_severity="error where an engine that is asked about may run on transformers before 5.0",
)
CLASS_UNKNOWN = Rule(
    "TOKENIZER_CLASS_UNKNOWN",
    "warning",
    "tokenizer_class is none that transformers has, and no code is named for it",
    _LOADED,
    "transformers 4 raises, 5 takes another class and does not say so: declare the one that is "
    "meant.",
    (_AUTO, _AUTO_4),
)
REMOTE_CODE = Rule(
    "TOKENIZER_REMOTE_CODE",
    "warning",
    "auto_map names code of the snapshot for the tokenizer",
    _LOADED,
    "It runs with trust_remote_code=True and may do anything: read it first. It was not run here, "
    "so ids are known as far as added_tokens_decoder tells them.",
    (_AUTO,),
)
MISTRAL_NATIVE = Rule(
    "TOKENIZER_MISTRAL_NATIVE",
    "info",
    "there is a tekken.json or a tokenizer.model.v…",
    ("vllm", "transformers"),
    "vLLM takes its Mistral mode where consolidated*.safetensors is there too; transformers takes "
    "mistral-common where that is installed.",
    (
        Reference("vllm", "0.33.0", "vllm/transformers_utils/repo_utils.py"),
        _AUTO,
    ),
)
FLAG_IGNORED = Rule(
    "ADD_BOS_EOS_FLAG_IGNORED",
    "info",
    "tokenizer_config.json has add_bos_token or add_eos_token beside a tokenizer.json",
    ("transformers>=5.0", "vllm", "sglang"),
    "transformers 5 drops the flags, the post-processor of tokenizer.json decides (SGLang restores "
    "them for seven class names of Llama, CodeLlama, Gemma and Cohere): set it there.",
    (_BASE, Reference("sglang", "0.5.23", "srt/utils/hf_transformers/tokenizer.py")),
)
_BY_PROBLEM: Mapping[Problem, Rule] = {
    "json": INVALID_JSON,
    "lfs": LFS_POINTER,
    "too-large": TOO_LARGE,
    "outside": OUTSIDE,
    "unreadable": UNREADABLE,
    "text": UNREADABLE,
}


def check(view: View) -> Iterator[Finding]:
    """All that this module's rules say of a snapshot, once the other rules have read its files."""
    yield from _problems(view)
    yield from _tokenizer_json(view)
    yield from _class(view)


def _problems(view: View) -> Iterator[Finding]:
    found: dict[Problem, list[Evidence]] = {}
    for name in _OBJECTS:
        view.snapshot.object(name)
    view.snapshot.find_pointers()
    for file in view.snapshot.problems():
        assert file.problem is not None
        evidence = Evidence(file.name, line=file.line, note=file.detail)
        found.setdefault(file.problem, []).append(evidence)
    for rule in dict.fromkeys(_BY_PROBLEM.values()):
        seen = [e for p, r in _BY_PROBLEM.items() if r is rule for e in found.get(p, ())]
        if seen:
            yield rule(*seen)
    if view.tokens.json is not None and (view.tokens.bare is None or view.tokens.loaded is None):
        yield NOT_A_TOKENIZER(Evidence(_JSON, note=view.tokens.refused))


def _tokenizer_json(view: View) -> Iterator[Finding]:
    snapshot, config = view.snapshot, view.tokens.config
    if snapshot.file(_JSON) is None:
        others = view.tokens.other_vocabularies
        code = auto_map_of(config)
        can_build = others or code
        yield JSON_MISSING(
            Evidence(_JSON, note="not there"),
            Evidence(value=others or code, note="what else a tokenizer can be built of"),
            severity="info" if can_build else "error",
        )
    native = view.mistral_files
    if native:
        weights = view.mistral_weights
        switches = "vLLM takes its Mistral mode" if weights else "vLLM does not switch: no weights"
        note = f"{switches} of the name consolidated*.safetensors" if not weights else switches
        yield MISTRAL_NATIVE(Evidence(native[0]), Evidence(value=weights[:3], note=note))
    if snapshot.file(_JSON) is not None:
        flags = {k: config[k] for k in ("add_bos_token", "add_eos_token") if k in config}
        flags = {key: value for key, value in flags.items() if isinstance(value, bool)}
        if flags:
            yield FLAG_IGNORED(*(Evidence(_CONFIG, f"/{k}", value=v) for k, v in flags.items()))


def _class(view: View) -> Iterator[Finding]:
    config = view.tokens.config
    code = auto_map_of(config)
    if code:
        yield REMOTE_CODE(Evidence(_CONFIG, "/auto_map", value=[name[:200] for name in code[:4]]))
    declared = config.get("tokenizer_class")
    if not isinstance(declared, str) or not declared:
        return
    evidence = Evidence(_CONFIG, "/tokenizer_class", value=declared[:200])
    if declared in ONLY_V5:
        below = any(engine.may_have_transformers_4 for engine in view.engines)
        yield REQUIRES_V5(evidence, severity="error" if below else "info")
    elif not code and facts().tokenizer_class(declared) is None:
        loaded = Evidence(note="transformers 5 takes", value=view.tokens.chosen.name)
        yield CLASS_UNKNOWN(evidence, loaded)

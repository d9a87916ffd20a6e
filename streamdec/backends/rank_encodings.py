"""Find the encoding of a rank file, and the rank file of an encoding.

In: a hash, a name, or the settings beside a rank file. Out: an :class:`EncodingSpec` with all
special tokens; the content of a file in tiktoken's cache; a text in the parts that are encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from streamdec.backends.rank_files import cached_file, encodings_of, sha256_of
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.folder_tokens import FolderTokens
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._extras import library
from streamdec.tokenizers._reading import read_bounded
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec, RankFile

MAX_TOKEN = 2**14
"""Bytes of a token; the longest known has 2,048. fastokens takes quadratic time for a token."""
_MAX_CHARS = 400_000
_MAX_RUN = 25_000
_RUN = re.compile(r"\s++|\S++")


def spec_of(
    sha256: str,
    name: str,
    encoding: str | EncodingSpec | None = None,
    declared: FolderTokens | None = None,
    encodings: Mapping[str, EncodingSpec] = ENCODINGS,
) -> EncodingSpec:
    """Return the encoding of the rank file with this ``sha256``.

    ``name`` is for messages. Raises :class:`~streamdec.TokenizerLoadError` for an unknown file
    without ``encoding``, and for a file that does not belong to ``encoding``.
    """
    found = encodings_of(sha256, encodings)
    if encoding is not None:
        return _checked(named_spec(encoding, encodings), found, sha256, name)
    if found:
        return found[0]
    code = "" if declared is None else declared.code
    for spec in encodings.values():
        if any(known in code for known in spec.code):
            return spec
    known = ", ".join(encodings)
    beside = f" (the code in {code.split('.')[0]}.py beside it has them)" if code else ""
    raise TokenizerLoadError(
        f"{name}: an unknown rank file (SHA-256 {sha256[:16]}…), not one of {known}; such a file "
        "does not say how text is split: pass encoding=EncodingSpec(name, pattern, special_tokens)"
        f"{beside}"
    )


def named_spec(
    encoding: str | EncodingSpec, encodings: Mapping[str, EncodingSpec] = ENCODINGS
) -> EncodingSpec:
    """Return the encoding of that name. Raises TokenizerLoadError if there is none."""
    if isinstance(encoding, EncodingSpec):
        return encoding
    if encoding not in encodings:
        raise TokenizerLoadError(f"no encoding {encoding!r:.80}; known: {', '.join(encodings)}")
    return encodings[encoding]


def _checked(
    spec: EncodingSpec, found: Sequence[EncodingSpec], sha256: str, name: str
) -> EncodingSpec:
    if spec.files and sha256 not in {file.sha256 for file in spec.files}:
        is_of = f"it is the file of {found[0].name}" if found else f"its SHA-256 is {sha256[:16]}…"
        raise TokenizerLoadError(f"{name}: not the rank file of {spec.name}: {is_of}")
    return spec


def with_declared(
    spec: EncodingSpec, ranks: Mapping[bytes, int], declared: FolderTokens | None, name: str
) -> EncodingSpec:
    """Return ``spec`` with the special tokens of ``declared``."""
    by_id = {token_id: token for token, token_id in spec.special_tokens.items()}
    first = max(ranks.values()) + 1
    if spec.code and by_id and min(by_id) != first:
        what = f"its tokens end before {first}, and special tokens of {spec.name} begin at"
        raise TokenizerLoadError(f"{name}: {what} {min(by_id)}")
    reserved = range(first, first + spec.num_reserved)
    by_id.update({token_id: f"<|reserved_token_{token_id}|>" for token_id in reserved})
    tokens = {} if declared is None else declared.by_id()
    if not tokens:
        special_tokens = {**spec.special_tokens, **{by_id[i]: i for i in reserved}}
        return replace(spec, special_tokens=special_tokens)
    taken = frozenset(tokens).intersection(ranks.values())
    if taken:
        some = ", ".join(map(str, sorted(taken)[:5]))
        what = f"tokenizer_config.json adds tokens with ids that the rank file has already: {some}"
        raise TokenizerLoadError(f"{name}: {what}")
    by_id.update({token_id: token.content for token_id, token in tokens.items()})
    special_tokens = {token: token_id for token_id, token in sorted(by_id.items())}
    if len(special_tokens) < len(by_id):
        raise TokenizerLoadError(f"{name}: tokenizer_config.json has two tokens with the same name")
    return replace(spec, special_tokens=special_tokens)


def check_ranks(ranks: Mapping[bytes, int], spec: EncodingSpec, name: str) -> None:
    """Raise TokenizerLoadError for ranks that make a library panic or take long."""
    if (longest := max(map(len, ranks))) > MAX_TOKEN:
        what = f"a token of {longest} bytes, and at most {MAX_TOKEN} are allowed"
        raise TokenizerLoadError(f"{name}: it has {what}")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise TokenizerLoadError(
            f"{name}: {len(missing)} bytes have no token, such as {missing[0]:#04x}"
        )
    clash = frozenset(spec.special_tokens.values()).intersection(ranks.values())
    if clash:
        raise TokenizerLoadError(f"{name}: the id {min(clash)} is also the id of a special token")


def encoding_of_model(model: str) -> str | None:
    """Return tiktoken's encoding of ``model``; None if unknown or without tiktoken."""
    try:
        import tiktoken

        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    return name if name in ENCODINGS else None


# --- finding a rank file --------------------------------------------------------------------------


def ranks_at_hand(spec: EncodingSpec, *, allow_download: bool) -> tuple[bytes, str]:
    """Return the content of the rank file of ``spec``, and its path or URL.

    The file is taken from tiktoken's cache, or downloaded if ``allow_download`` is true. Raises
    TokenizerLoadError if that fails.
    """
    for file in spec.files:
        path = cached_file(file)
        if path is not None:
            content = read_bounded(path)
            if sha256_of(content) == file.sha256:
                return content, str(path)
    file = next((file for file in spec.files if file.url), RankFile(""))
    reason = "it cannot be downloaded, because no address of it is known"
    if file.url:
        reason = "downloads are not allowed (allow them with allow_download=True)"
        if allow_download:
            try:
                return _download(file), file.url
            except TokenizerLibraryError as error:
                reason = f"the download failed ({error.__cause__!r:.200})"
    shown = f" ({file.url})" if file.url else ""
    advice = f"Give the path of the file{shown}"
    if file.url:
        advice += ", or put it into the folder that TIKTOKEN_CACHE_DIR names, as tiktoken does"
    raise TokenizerLoadError(
        f"the rank file of {spec.name} is not in the cache: {reason}. {advice}"
    )


def _download(file: RankFile) -> bytes:
    """Download with tiktoken, which checks the SHA-256 and caches the file."""
    load = library("tiktoken.load", "tiktoken")
    content: bytes = guarded(load.read_file_cached, file.url, file.sha256)
    return content


# --- splitting long texts -------------------------------------------------------------------------


def cut(text: str) -> list[str]:
    """Return the parts of ``text`` that are encoded separately.

    The references of Llama and Kimi encode the same parts.
    """
    if len(text) <= _MAX_RUN:
        return [text]
    parts = (text[start : start + _MAX_CHARS] for start in range(0, len(text), _MAX_CHARS))
    return [run for part in parts for run in _cut_runs(part)]


def _cut_runs(text: str) -> Iterator[str]:
    """Split each run of white space, or of other characters, after 25,000 of them."""
    start = 0
    for run in _RUN.finditer(text) if _has_long_run(text) else ():
        for place in range(run.start() + _MAX_RUN, run.end(), _MAX_RUN):
            yield text[start:place]
            start = place
    yield text[start:]


def _has_long_run(text: str) -> bool:
    """Return whether a run in ``text`` has more than 25,000 characters.

    Such a run crosses a multiple of 25,000 characters.
    """
    for place in range(_MAX_RUN, len(text), _MAX_RUN):
        before = text[place - _MAX_RUN : place]
        # How many characters of the run are before ``place``.
        if text[place].isspace():
            first = len(before) - len(before.rstrip())
        else:
            first = len(before.rsplit(None, 1)[-1]) if not before[-1].isspace() else 0
        run = _RUN.match(text, place)
        if run is not None and first + run.end() - place > _MAX_RUN:
            return True
    return False

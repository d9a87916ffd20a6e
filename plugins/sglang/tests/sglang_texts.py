"""Compare texts on random requests: ``python sglang_texts.py``.

Each request is decoded by SGLang's own code, by the plugin and by the oracle: the tokenizer's
``decode`` of the end of the prompt and of all generated ids, less the text of the prompt. Each
difference between SGLang and the plugin gets a class; ``unexplained`` has to stay empty.
"""

from __future__ import annotations

import argparse
import codecs
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sglang_on_cpu
from sglang_on_cpu import Script

TEXT = """\
Streams 🦉🦉 of tokens. naïve café, Übergröße, 東京都は日本の首都です。世界、你好！
Привет, мир! Γειά σου Κόσμε. สวัสดีชาวโลก नमस्ते दुनिया 한국어 텍스트 👩‍👩‍👧‍👦 🇫🇷 family
def f(x: int) -> str:\n    return f"{x:>10}"  # done\n\n| a | b |\n|---|---|\n\t\tEND.\nUser: bye
A 世好a世, A 世b好 和 "quotes" — dashes… €100 ½ µs ∑∞ \u200b\u200d 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🤷🏽‍♀️ END</s>\n"""
STOPS = ("END", "\nUser:", "。", "世界", "🦉🦉", "bye", "\n\n", "é", "k")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Source:
    """What random requests of one tokenizer are made of."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = tokenizer.encode(TEXT, add_special_tokens=False)
        size = len(tokenizer)
        self.size = size
        self.special = sorted(_special_ids(tokenizer))
        broken = (i for i in range(size) if tokenizer.decode([i, i]).startswith("\ufffd"))
        self.broken = [token_id for token_id, _ in zip(broken, range(200), strict=False)]

    def prompt(self, draw: random.Random) -> list[int]:
        """Return the ids of a prompt: of real text, cut anywhere, often inside a character."""
        if draw.random() < 0.1:
            return [draw.choice(self.ids)] if draw.random() < 0.5 else []
        end = draw.randrange(1, len(self.ids))
        ids = self.ids[max(end - draw.randrange(1, 12), 0) : end]
        if self.special and draw.random() < 0.2:
            ids += [draw.choice(self.special)]
        return ids

    def generated(self, draw: random.Random) -> list[int]:
        """Return generated ids: text, single bytes, special, random and unknown ones."""
        ids: list[int] = []
        kinds = ("text", "text", "text", "text", "bytes", "special", "any", "unknown")
        for _ in range(draw.randrange(1, 6)):
            kind = draw.choice(kinds)
            if kind == "text":
                begin = draw.randrange(len(self.ids))
                ids += self.ids[begin : begin + draw.randrange(1, 40)]
            elif kind == "bytes" and self.broken:
                ids += [draw.choice(self.broken) for _ in range(draw.randrange(1, 8))]
            elif kind == "special" and self.special:
                ids.append(draw.choice(self.special))
            elif kind == "any":
                ids += [draw.randrange(self.size) for _ in range(draw.randrange(1, 12))]
            elif kind == "unknown" and draw.random() < 0.3:
                ids.append(self.size + draw.randrange(100))
        return ids or [draw.choice(self.ids)]

    def script(self, draw: random.Random) -> Script:
        """Return a random request."""
        prompt, ids = self.prompt(draw), self.generated(draw)
        most = draw.choice((1, 1, 1, 2, 4, 9))
        steps = []
        while ids:
            size = draw.randint(1, most)
            steps.append(ids[:size])
            ids = ids[size:]
        params: dict[str, Any] = {
            "skip_special_tokens": draw.random() < 0.7,
            "spaces_between_special_tokens": draw.random() < 0.7,
            "no_stop_trim": draw.random() < 0.2,
        }
        if draw.random() < 0.4:
            params["stop"] = draw.sample(STOPS, draw.randint(1, 3))
        if draw.random() < 0.15:
            params["stop_regex"] = draw.choice(["END.?", "[0-9]+ ", "café"])
        if draw.random() < 0.2:
            params["stop_token_ids"] = [draw.choice(steps[-1])]
        if draw.random() < 0.1:
            params["min_new_tokens"] = 3
        abort_at = draw.randrange(len(steps)) if draw.random() < 0.05 else -1
        return Script(prompt, steps, abort_at, stream=draw.random() < 0.8, params=params)


@dataclass
class Outcome:
    """What became of one request.

    Args:
        script: the request.
        ids: the ids that the detokenizer got, and at first the end of the prompt.
        num_prompt_ids: how many of them are of the prompt.
        reason: why the request ended.
        texts: the chunks of SGLang's own code, and of the plugin.
    """

    script: Script
    ids: list[int]
    num_prompt_ids: int
    reason: dict[str, Any]
    texts: dict[str, list[str]]


def outcomes(scripts: Sequence[Script], tokenizer: Any) -> list[Outcome]:
    """Decode ``scripts`` in one batch, with SGLang's own code and with the plugin.

    SGLang's own scheduler finds the stops.
    """
    named = {f"request {number}": script for number, script in enumerate(scripts)}
    given = [*sglang_on_cpu.batches(named, tokenizer, is_stock=True)]
    found: dict[str, Outcome] = {}
    for batch in given:
        for row, rid in enumerate(batch.rids):
            if rid not in found:
                found[rid] = Outcome(named[rid], [], batch.read_offsets[row], {}, {})
            found[rid].ids.extend(batch.decode_ids[row])
            found[rid].reason = batch.finished_reasons[row] or {}
    for name, method in (("SGLang", sglang_on_cpu.stock()), ("plugin", None)):
        manager = sglang_on_cpu.make_manager(tokenizer)
        for rid, texts in sglang_on_cpu.run(manager, given, method).items():
            found[rid].texts[name] = texts
        assert not manager.decode_status
    return [*found.values()]


# --- the oracle -----------------------------------------------------------------------------------


class Oracle:
    """The text that requests should have, worked out from bytes; checked against ``decode``.

    The bytes of all tokens are joined and read as UTF-8. What is bad becomes U+FFFD as the
    tokenizer's own ``decode`` has it: one for each maximal part of a character, or one for each
    byte if the tokens are byte-fallback tokens. There is one difference from ``decode``: it turns
    a whole run of byte-fallback tokens into U+FFFD if one of them is bad. A stream has output the
    good characters by then.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        decoder = tokenizer.backend_tokenizer.decoder
        self.has_byte_level = type(decoder).__name__ == "ByteLevel"
        self.errors = "replace" if self.has_byte_level else "each"
        self.skipped = _special_ids(tokenizer)
        self.strips = False
        """Whether the decoder takes a space off the beginning."""
        if not self.has_byte_level:
            self.strips = tokenizer.decode(tokenizer.convert_tokens_to_ids(["▁a"])) == "a"

    def expected(self, outcome: Outcome) -> str:
        """Return the text that a request should have."""
        params, reason = outcome.script.params, outcome.reason
        ids, num_prompt_ids = outcome.ids, outcome.num_prompt_ids
        matched = reason.get("matched")
        if isinstance(matched, int) and not params["no_stop_trim"] and len(ids) > num_prompt_ids:
            ids = ids[:-1]
        skip = params["skip_special_tokens"]
        whole = self.decode(ids, skip=skip)
        before, _ = self.decided(ids[:num_prompt_ids], skip=skip)
        assert whole.startswith(before), (before, whole)
        text = whole[len(before) :]
        if isinstance(matched, str) and matched in text:
            end = text.find(matched)
            text = text[: end + len(matched)] if params["no_stop_trim"] else text[:end]
        return text

    def decode(self, ids: Iterable[int], *, skip: bool) -> str:
        """Return the full decode of ``ids``."""
        known = [token_id for token_id in ids if token_id < len(self.tokenizer)]
        text = self._stripped(self._bytes(known, skip).decode(errors=self.errors))
        theirs = self.tokenizer.decode(known, skip_special_tokens=skip)
        assert text == theirs or (not self.has_byte_level and "\ufffd" in theirs), (text, theirs)
        return text

    def decided(self, ids: Sequence[int], *, skip: bool) -> tuple[str, int]:
        """Return the text of ``ids`` without an unfinished character, and the bytes of that."""
        known = [token_id for token_id in ids if token_id < len(self.tokenizer)]
        decoder = codecs.getincrementaldecoder("utf-8")(self.errors)
        text = self._stripped(decoder.decode(self._bytes(known, skip)))
        return text, len(decoder.getstate()[0])

    def _stripped(self, text: str) -> str:
        return text.removeprefix(" ") if self.strips else text

    def _bytes(self, known: Sequence[int], skip: bool) -> bytes:
        tokens = self.tokenizer.convert_ids_to_tokens(known)
        pairs = zip(known, tokens, strict=True)
        return b"".join(
            self._bytes_of(token)
            for token_id, token in pairs
            if not (skip and token_id in self.skipped)
        )

    def _bytes_of(self, token: str) -> bytes:
        if self.has_byte_level:
            if all(letter in BYTE_LETTERS for letter in token):
                return bytes(BYTE_LETTERS[letter] for letter in token)
            return token.encode()
        byte = _BYTE.fullmatch(token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()


def _byte_letters() -> dict[str, int]:
    """Return the letters that stand for bytes in byte-level vocabularies."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {chr(byte): byte for byte in shown}
    return letters | {chr(256 + place): byte for place, byte in enumerate(hidden)}


BYTE_LETTERS = _byte_letters()


def _special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of the tokens that ``skip_special_tokens`` leaves out."""
    added = tokenizer.added_tokens_decoder.items()
    return {token_id for token_id, token in added if token.special}


def _each(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("each", _each)


# --- differences ----------------------------------------------------------------------------------


def kind_of(outcome: Outcome, oracle: Oracle) -> str | None:
    """Return the class of a difference between SGLang and the plugin; None without one."""
    theirs, ours = ("".join(outcome.texts[name]) for name in ("SGLang", "plugin"))
    right, skip = oracle.expected(outcome), outcome.script.params["skip_special_tokens"]
    if ours != right:
        matched = outcome.reason.get("matched")
        if isinstance(matched, str) and ours.startswith(right):
            if theirs == ours:
                return "alike: the scheduler had sent a part of the stop"
            if matched.startswith(ours[len(right) :]):
                return "the scheduler had sent a part of the stop"
            if matched in oracle.decode(outcome.ids[:-1], skip=skip):
                return "the scheduler finds a stop late"
        return "unexplained: not the oracle's"
    if theirs == ours:
        return None
    ids, num_prompt_ids = outcome.ids, outcome.num_prompt_ids
    if any(token_id >= len(oracle.tokenizer) for token_id in ids):
        return "an id that the tokenizer does not have"
    if oracle.decided(ids[:num_prompt_ids], skip=skip)[1]:
        return "the prompt ends inside a character"
    if "\ufffd" in oracle.decode(ids, skip=skip):
        return "bytes that are not UTF-8"
    if isinstance(outcome.reason.get("matched"), str) and theirs.startswith(right):
        return "SGLang outputs a part of the stop"
    if len(theirs) > len(ours):
        return "SGLang repeats text"
    return "unexplained"


def compare(
    name: str, number: int, seed: int, size: int = 64
) -> tuple[Counter[str], dict[str, list[Outcome]]]:
    """Compare ``number`` random requests of a tokenizer.

    Returns how many are of each class, with those that are alike as ``alike``, and examples.
    """
    tokenizer = sglang_on_cpu.tokenizer(name)
    source, oracle, draw = Source(tokenizer), Oracle(tokenizer), random.Random(f"{name} {seed}")
    counts: Counter[str] = Counter()
    examples: dict[str, list[Outcome]] = defaultdict(list)
    while number > 0:
        scripts = [source.script(draw) for _ in range(min(size, number))]
        number -= len(scripts)
        for outcome in outcomes(scripts, tokenizer):
            kind = kind_of(outcome, oracle) or "alike"
            counts[kind] += 1
            if "".join(outcome.texts["SGLang"]) == oracle.expected(outcome):
                counts["(SGLang equals the oracle)"] += 1
            if not kind.startswith("alike"):
                examples[kind].append(outcome)
    return counts, examples


def main() -> None:
    """Print the counts of each class."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["qwen3", "deepseek-v3", "gpt2", "phi-3-vision", "mistral-7b-v0.1", "yi"]
    parser.add_argument("--tokenizers", nargs="+", default=names)
    parser.add_argument("--number", type=int, default=500, help="requests of each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="how many to show of each class")
    arguments = parser.parse_args()
    for name in arguments.tokenizers:
        if not Path(sglang_on_cpu.SHARED, name).exists():
            print(f"{name}: not at hand")
            continue
        counts, examples = compare(name, arguments.number, arguments.seed)
        print(name, dict(counts.most_common()), flush=True)
        for kind, found in examples.items():
            for outcome in found[: arguments.examples]:
                right = Oracle(sglang_on_cpu.tokenizer(name)).expected(outcome)
                print(f"  {kind}: {outcome.ids} ({outcome.num_prompt_ids} of the prompt)")
                print(f"    {outcome.script.params} {outcome.reason}\n    oracle {right!r}")
                for who, texts in outcome.texts.items():
                    print(f"    {who} {texts}")


if __name__ == "__main__":
    main()

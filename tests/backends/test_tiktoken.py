from __future__ import annotations

import base64
import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends import rank_files
from streamdec.backends.rank_files import cached_file, encodings_of, parse_ranks
from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.encoding import SpecialTokens
from streamdec.errors import EncodeError, StreamdecWarning, TokenizerLoadError
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec, RankFile
from tests.support.files import MERGED, SHARED, rank_file, small_ranks, write_json

tiktoken = pytest.importorskip("tiktoken")

SPECIAL = {"<a>": 272, "<b>": 280, "<a> b": 281}
PATTERN = r"\s?\S+|\s+"
SPEC = EncodingSpec("small", PATTERN, SPECIAL, bos_token="<a>", eos_token="<b>")


def small(**changes: Any) -> TiktokenTokenizer:
    spec = EncodingSpec(**{**vars(SPEC), **changes})
    return TiktokenTokenizer(rank_file(), encoding=spec)


OURS = small()
THEIRS = tiktoken.Encoding(
    "theirs", pat_str=PATTERN, mergeable_ranks=small_ranks(), special_tokens=SPECIAL
)
KNOWN = [*range(272), *SPECIAL.values()]


@given(st.lists(st.sampled_from(KNOWN)))
def test_decode_is_the_librarys(ids: list[int]) -> None:
    assert OURS.decode(ids, skip_special_tokens=False) == THEIRS.decode(ids)
    without = [token_id for token_id in ids if token_id not in SPECIAL.values()]
    assert OURS.decode(ids) == THEIRS.decode(without)


# --- encoding -------------------------------------------------------------------------------------

TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from([*SPECIAL, "<a", " hello the", "你好", "😀", "  \n\n"]),
    ),
    max_size=6,
).map("".join)


@given(TEXTS)
def test_encode_is_the_librarys(text: str) -> None:
    assert list(OURS.encode(text)) == THEIRS.encode(text, allowed_special="all")
    as_text = OURS.encode(text, special="text")
    assert list(as_text) == THEIRS.encode(text, disallowed_special=())
    assert OURS.decode(as_text.ids, skip_special_tokens=False) == text
    for encoding in (OURS.encode(text), as_text):
        assert "".join(text[start:end] for start, end in encoding.offsets) or not text
    if any(token in text for token in SPECIAL):
        with pytest.raises(EncodeError, match="<"):
            OURS.encode(text, special="forbid")
    else:
        assert OURS.encode(text, special="forbid") == OURS.encode(text)


def test_what_an_encoding_says_of_texts() -> None:
    assert OURS.encode("he", add_special_tokens=True).ids == OURS.encode("he").ids
    found = small(begins_with=("<b>", "<a>")).encode("he", add_special_tokens=True)
    assert (found.tokens[:2], found.ids[2:]) == (("<b>", "<a>"), OURS.encode("he").ids)
    assert small(is_nfc=True).encode("e\u0301").ids == OURS.encode("é").ids
    assert OURS.encode("e\u0301").ids != OURS.encode("é").ids


def cut_plainly(text: str, most: int, run: int) -> Iterator[str]:
    """What the references do, written out."""
    for begin in range(0, len(text), most):
        part, length = "", 0
        for character in text[begin : begin + most]:
            same = bool(part) and part[-1].isspace() == character.isspace()
            length = length + 1 if same else 1
            if length > run:
                yield part
                part, length = "", 1
            part += character
        yield part


@given(st.text("a \n\x1c\u3000é", max_size=60))
def test_long_texts_are_cut_as_by_the_plain_algorithm(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_files, "_MAX_CHARS", 17)
        patch.setattr(rank_files, "_MAX_RUN", 3)
        parts = rank_files.cut(text)
    assert [p for p in parts if p] == [p for p in cut_plainly(text, 17, 3) if p]


# --- the vocabulary -------------------------------------------------------------------------------


def test_names_go_both_ways() -> None:
    for token_id in KNOWN:
        name = OURS.id_to_token(token_id)
        assert name is not None
        assert OURS.token_to_id(name) == token_id
        assert OURS.token_to_id(THEIRS.decode_single_token_bytes(token_id)) == token_id
    assert OURS.id_to_token(256 + MERGED.index(b"\xa9\xff")) == "<0xA9><0xFF>"
    assert OURS.id_to_token(273) is None
    for unknown in ("none", "<0xFF><0xFF>", "<0x", "<0x68>e", "\ud800", "", b"\xff\xff"):
        assert OURS.token_to_id(unknown) is None
    special = SpecialTokens("<a>", "<b>", additional_special_tokens=("<a> b",))
    assert (OURS.vocab_size, OURS.special_tokens) == (282, special)
    assert [token_id for token_id in range(300) if OURS.is_skipped(token_id)] == [272, 280, 281]


def test_an_encoding_of_tiktoken_is_taken_as_it_is() -> None:
    given_ = TiktokenTokenizer(THEIRS)
    assert given_.fingerprint == OURS.fingerprint
    assert given_.special_tokens.all == ("<a>", "<b>", "<a> b")
    assert repr(given_) == "TiktokenTokenizer('theirs', theirs)"


def test_two_names_of_one_id() -> None:
    """As in o200k_harmony, where 200018 is <|endofprompt|> and <|reserved_200018|>."""
    twice = small(special_tokens={"<a>": 300, "<b>": 300})
    assert twice.encode("<a><b>").ids == (300, 300)
    assert twice.decode([300], skip_special_tokens=False) in SPECIAL
    assert twice.token_to_id("<a>") == twice.token_to_id("<b>") == 300


def declaring(folder: Path, tokens: dict[int, str], *, special: bool = True) -> TiktokenTokenizer:
    by_id = {str(i): {"content": text, "special": special} for i, text in tokens.items()}
    write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": by_id})
    (folder / "ranks").write_bytes(rank_file())
    return TiktokenTokenizer(folder / "ranks", encoding=SPEC)


def test_pickling_keeps_everything(tmp_path: Path) -> None:
    ours = declaring(tmp_path, {272: "<a>"}, special=False)
    copy = pickle.loads(pickle.dumps(ours))
    assert copy.fingerprint == ours.fingerprint != OURS.fingerprint
    assert copy.encode("hello <a>").ids == ours.encode("hello <a>").ids
    assert copy.special_tokens == ours.special_tokens


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, EncodingSpec]:
    """A table of encodings, two of which share a small file, and one is in a part of it."""
    file = RankFile(hashlib.sha256(rank_file()).hexdigest(), "https://example.org/small.tiktoken")
    other = RankFile("0" * 64, "https://example.org/other.tiktoken")
    table = {
        "whole": EncodingSpec("whole", PATTERN, SPECIAL, files=(file,), code=("tokenization_w.W",)),
        "edit": EncodingSpec("edit", PATTERN, {"<c>": 300}, files=(file,)),
        "part": EncodingSpec("part", PATTERN, {"<d>": 260}, files=(other, file), ranks_below=260),
        "other": EncodingSpec("other", PATTERN, files=(other,)),
        "kimi": EncodingSpec(
            "kimi", PATTERN, num_reserved=4, code=("tokenization_kimi.TikTokenTokenizer",)
        ),
        "numbered": EncodingSpec(
            "numbered", PATTERN, {"<eos>": 272}, code=("tokenization_n.N",), is_numbered=True
        ),
    }
    monkeypatch.setattr(rank_files, "ENCODINGS", table)
    return table


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])  # git can change how lines end
def test_one_rank_file_serves_three_encodings(end: bytes, tmp_path: Path) -> None:
    (tmp_path / "ranks").write_bytes(rank_file().replace(b"\n", end))
    assert TiktokenTokenizer(tmp_path / "ranks").special_tokens.all == ("<a>", "<b>", "<a> b")
    assert TiktokenTokenizer(tmp_path / "ranks", encoding="edit").vocab_size == 301
    part = TiktokenTokenizer(tmp_path / "ranks", encoding="part")
    assert part.vocab_size == 261
    assert part.decode([260], skip_special_tokens=False) == "<d>"
    assert part.piece(259) == THEIRS.decode_single_token_bytes(259)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (rank_file(), "none", "no encoding 'none'; known: whole, edit"),
        (rank_file(), "other", "not the rank file of other: it is the file of whole"),
        (rank_file({b"a": 0}), "other", r"of other: it is of SHA-256 [0-9a-f]{16}"),
        (rank_file({b"a": 0}), None, r"ranks'.*not one of whole, edit, part.*pass encoding="),
        (b"IQ== 0\nIQ== 1\n", SPEC, "line 2"),
        (rank_file({b"a": 0}), SPEC, "255 bytes have no token, such as 0x00"),
        (
            rank_file(small_ranks() | {b"xx": 272}),
            SPEC,
            "the id 272 is also the id of a special token",
        ),
        (rank_file(), EncodingSpec("x", "("), "ranks'.*[Pp]arenthes"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(
    content: bytes, encoding: Any, message: str, tmp_path: Path
) -> None:
    (tmp_path / "ranks").write_bytes(content)
    with pytest.raises(TokenizerLoadError, match=message):
        TiktokenTokenizer(tmp_path / "ranks", encoding=encoding)


@pytest.mark.usefixtures("known")
def test_a_config_beside_it_names_special_tokens(tmp_path: Path) -> None:
    ranks = {**small_ranks(), b"hel": 272}
    (tmp_path / "tiktoken.model").write_bytes(rank_file(ranks))
    write_json(
        tmp_path / "tokenizer_config.json",
        {
            "added_tokens_decoder": {
                "273": {"content": "[BOS]", "special": True},
                "275": {"content": "<tool>", "special": False},
                "277": {"content": "<far>", "special": True},
            },
            "bos_token": "[BOS]",
            "pad_token": "<nowhere>",
            "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
        },
    )
    with pytest.warns(StreamdecWarning) as caught:
        tokenizer = TiktokenTokenizer(tmp_path / "tiktoken.model")
    code, beyond = (str(warning.message) for warning in caught)
    assert "which is not run: 'tokenization_kimi.TikTokenTokenizer'. It is taken for that" in code
    assert "may have no tokens with the declared ids [277]. It has ids below 277" in beyond
    names = ["[BOS]", "<|reserved_token_274|>", "<tool>", "<|reserved_token_276|>", "<far>"]
    assert [tokenizer.id_to_token(token_id) for token_id in range(273, 279)] == [*names, None]
    # Its code skips only what is declared.
    assert [tokenizer.is_skipped(token_id) for token_id in range(273, 278)] == [1, 0, 0, 0, 1]
    assert tokenizer.decode([273, 275]) == "<tool>"
    assert tokenizer.special_tokens.bos_token == "[BOS]"
    assert tokenizer.special_tokens.pad_token is None


def test_the_code_of_kimi_counts_the_tokens(known: dict[str, EncodingSpec]) -> None:
    ranks = rank_file(small_ranks() | {b"hel": 290})
    with pytest.raises(TokenizerLoadError, match="begin at 273, and its ranks go on to 290"):
        TiktokenTokenizer(ranks, encoding=known["kimi"])


def write_code(folder: Path, code: str) -> None:
    write_json(folder / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": [code, None]}})


@pytest.mark.usefixtures("known")
def test_the_class_of_a_folder_with_code_tells_its_encoding(tmp_path: Path) -> None:
    ranks = dict(sorted(small_ranks().items(), key=lambda item: item[1]))
    lines = rank_file(dict.fromkeys(ranks, 0)).splitlines()
    (tmp_path / "n.tiktoken").write_bytes(b"\n".join([*lines, lines[0]]))
    write_code(tmp_path, "org/repository--tokenization_n.N")
    with pytest.warns(StreamdecWarning, match="is taken for that of numbered"):
        tokenizer = TiktokenTokenizer(tmp_path / "n.tiktoken")
    assert tokenizer.encoding_name == "numbered"
    assert tokenizer.encode("hello<eos>").ids == (*OURS.encode("hello").ids, 272)
    (tmp_path / "n.tiktoken").write_bytes(b"\n".join(lines[:-1]))
    message = "end before 271, and special tokens of numbered"
    with pytest.warns(StreamdecWarning), pytest.raises(TokenizerLoadError, match=message):
        TiktokenTokenizer(tmp_path / "n.tiktoken")
    (tmp_path / "known.tiktoken").write_bytes(rank_file())
    with pytest.warns(StreamdecWarning, match="is taken for that of whole"):  # as Phi-3 small
        assert TiktokenTokenizer(tmp_path / "known.tiktoken").encoding_name == "whole"
    write_code(tmp_path, "tokenization_w.W")
    assert TiktokenTokenizer(tmp_path / "known.tiktoken").encoding_name == "whole"
    write_code(tmp_path, "tokenization_x.X")
    with pytest.raises(TokenizerLoadError, match=r"EncodingSpec.*tokenization_x\.py"):
        TiktokenTokenizer(tmp_path / "n.tiktoken")


@pytest.mark.parametrize("tokens", [{3: "<a>"}, {300: "<x>", 301: "<x>"}])
def test_a_config_that_contradicts_the_ranks(tokens: dict[int, str], tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=r"tokenizer_config\.json"):
        declaring(tmp_path, tokens)


def test_nothing_is_downloaded_unless_it_is_allowed(
    known: dict[str, EncodingSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiktoken.load

    asked: list[str] = []

    def fail(url: str) -> bytes:
        asked.append(url)
        raise OSError("no network")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    url = known["whole"].files[0].url
    path = tmp_path / hashlib.sha1(url.encode()).hexdigest()
    path.write_bytes(rank_file())
    for name in ("whole", "edit", "part"):
        assert TiktokenTokenizer.named(name).name == str(path)
    path.write_bytes(rank_file() + b"\n")  # another file
    monkeypatch.setattr(tiktoken.load, "read_file", fail)
    supply = rf"Give the path of the file \({url}\), or put it into .*TIKTOKEN_CACHE_DIR"
    with pytest.raises(TokenizerLoadError, match=f"allow_download=True.*{supply}"):
        TiktokenTokenizer.named("whole")
    assert asked == []
    with pytest.raises(TokenizerLoadError, match=f"the download failed.*no network.*{supply}"):
        TiktokenTokenizer.named("whole", allow_download=True)
    assert asked == [url]
    with pytest.raises(TokenizerLoadError, match="no address of it is known"):
        TiktokenTokenizer.named("kimi", allow_download=True)
    monkeypatch.setattr(tiktoken.load, "read_file", lambda _: rank_file())
    assert TiktokenTokenizer.named("whole", allow_download=True).vocab_size == 282
    assert path.read_bytes() == rank_file()


@pytest.mark.thorough
def test_a_real_file_of_kimi_has_the_known_tokens() -> None:
    if not SHARED.exists():
        pytest.skip("the folder of real tokenizers is not here")
    kimi = TiktokenTokenizer(SHARED / "kimi-k2" / "tiktoken.model")
    assert kimi.vocab_size == 163_840
    assert kimi.special_tokens.eos_token == "[EOS]"
    assert kimi.decode([163_586, 163_597]) == "<|tool_call_begin|>"
    assert kimi.encode("中文English混合").ids == (16717, 44372, 13935)
    assert set(ENCODINGS["kimi"].special_tokens) == set()


@given(st.dictionaries(st.binary(min_size=1, max_size=12), st.integers(0, 2**24 - 1), min_size=1))
def test_written_values_are_read_unchanged(by_token: dict[bytes, int]) -> None:
    ranks = {token: rank for rank, token in {r: t for t, r in by_token.items()}.items()}
    assert parse_ranks(rank_file(ranks)) == ranks


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no ranks"),
        (b"\n\n", "no ranks"),
        (b"IQ==", "line 1"),
        (b"IQ== 0\nIg== -1", "line 2"),
        (b"IQ== 0 1", "line 1"),
        (b"IQ= 0", "line 1"),
        (b"I!== 0", "line 1"),
        (b"IQ== 16777216", "line 1"),
        (b"IQ== " + b"9" * 5000, "line 1"),
        (b"IQ== 1_0", "line 1"),
        (b"IQ== 1.5", "line 1"),
        ("IQ== ٣".encode(), "line 1"),
        (b"IQ== 0\nIQ== 1", r"line 2: the token b'!' occurs twice"),
        (b"IQ== 0\nIg== 0", "two tokens have the same rank"),
        (b"\x00" * 5000, "line 1"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(content: bytes, message: str) -> None:
    with pytest.raises(TokenizerLoadError, match=f"^my file.*{message}") as caught:
        parse_ranks(content, "my file")
    assert len(str(caught.value)) < 250


def test_a_shared_file_is_first_of_all_the_encoding_that_uses_all_of_it() -> None:
    by_name = {name: [file.sha256 for file in spec.files] for name, spec in ENCODINGS.items()}
    p50k, r50k = by_name["p50k_base"][0], by_name["r50k_base"][0]
    names = {sha: [spec.name for spec in encodings_of(sha)] for sha in (p50k, r50k, "0" * 64)}
    assert names[p50k] == ["p50k_base", "p50k_edit", "r50k_base", "gpt2"]
    assert names[r50k] == ["r50k_base", "gpt2"]
    assert names["0" * 64] == []


def test_the_cache_of_tiktoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RankFile("0" * 64, "https://example.org/x.tiktoken")
    name = hashlib.sha1(file.url.encode()).hexdigest()
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert cached_file(file) is None
    (tmp_path / name).write_bytes(b"")
    assert cached_file(file) == tmp_path / name
    assert cached_file(RankFile("0" * 64)) is None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert cached_file(file) is None


def test_the_facts_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    loaded: list[RankFile] = []

    def note(url: str, expected_hash: str) -> dict[bytes, int]:
        loaded.append(RankFile(expected_hash, url))
        return {}

    monkeypatch.setattr(public, "load_tiktoken_bpe", note)
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", lambda **_: {})
    for name, construct in public.ENCODING_CONSTRUCTORS.items():
        spec = ENCODINGS[name]
        facts = construct()
        assert spec.pattern == facts["pat_str"]
        assert spec.special_tokens == facts["special_tokens"]
        assert name == "gpt2" or loaded.pop() in spec.files
        assert ENCODINGS["gpt2"].files == ENCODINGS["r50k_base"].files


def test_special_tokens_follow_the_ranks() -> None:
    facts = {
        "llama3": (128_000, 256, {128_000: "<|begin_of_text|>", 128_009: "<|eot_id|>"}),
        "llama3.1": (128_000, 256, {128_009: "<|eot_id|>", 128_010: "<|python_tag|>"}),
        "llama4": (200_000, 2048, {200_008: "<|eot|>", 200_080: "<|image_start|>"}),
        "glm4": (151_329, 14, {151_331: "[gMASK]", 151_336: "<|user|>"}),
        "hunyuan": (127_957, 210, {127_958: "<|startoftext|>", 127_960: "<|eos|>"}),
        "qwen": (151_643, 208, {151_645: "<|im_end|>", 151_850: "<|extra_204|>"}),
    }
    for name, (first, count, some) in facts.items():
        ids = {token_id: token for token, token_id in ENCODINGS[name].special_tokens.items()}
        assert sorted(ids) == list(range(first, first + count)), name
        assert {token_id: ids[token_id] for token_id in some} == some
    # The numbers in the comments of models/llama4/tokenizer.py.
    llama4 = ENCODINGS["llama4"].special_tokens
    assert llama4["<|reasoning_reserved_special_token_0|>"] == 201_134
    assert llama4["<|reasoning_thinking_end|>"] == 201_143


@pytest.mark.parametrize("spec", ENCODINGS.values(), ids=list(ENCODINGS))
def test_roles_are_special_tokens(spec: EncodingSpec) -> None:
    roles = {spec.bos_token, spec.eos_token, spec.pad_token} - {None}
    assert roles <= spec.special_tokens.keys()
    assert {*spec.begins_with} <= spec.special_tokens.keys()
    assert all(len(file.sha256) == 64 for file in spec.files)


def test_a_special_token_that_is_a_word_of_the_file_as_well() -> None:
    words = [*(bytes([byte]) for byte in range(256)), b"<s>"]
    lines = (b"%s %d" % (base64.b64encode(word), rank) for rank, word in enumerate(words))
    spec = EncodingSpec("mine", r"(?s:.)+", {"<s>": 300}, bos_token="<s>", begins_with=("<s>",))
    ours = TiktokenTokenizer(b"\n".join(lines), encoding=spec)
    assert ours.encode("<s>").ids == (300,)
    assert ours.encode("", add_special_tokens=True).ids == (300,)
    assert ours.decode([256, 300]) == "<s>"

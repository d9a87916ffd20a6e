from __future__ import annotations

import json
import os
import pickle
import sys
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.encoding import Special
from streamdec.errors import (
    EncodeError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.protocols import TextRules
from streamdec.tokenizers.tokenizer_report import FastMode
from tests.support.zoo import UNCOMPILED, ZOO, shared_tokenizers

ALL = {**ZOO, **UNCOMPILED}
SHARED = [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]

OF_EACH_ENCODER = (
    *("byte_level_trained", "byte_level", "byte_fallback", "wordpiece", "metaspace_unigram"),
    *("word_level", "normalized_specials"),
)
"""Most others differ from these in their decoders alone."""

wrapped = cache(lambda name: HuggingFaceTokenizer(ALL[name]()))
library = cache(lambda name: ALL[name]())
from_file = cache(HuggingFaceTokenizer)


def words(decoder: decoders.Decoder | None = None, *texts: str) -> Tokenizer:
    """A tokenizer of a few words, which splits at white space."""
    vocabulary = {text: i for i, text in enumerate(texts or ("<unk>", "a", "b", "c"))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=next(iter(vocabulary))))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoder
    return tokenizer


def rules_of(*chain: decoders.Decoder) -> TextRules | None:
    return HuggingFaceTokenizer(words(decoders.Sequence([*chain]))).rules


@pytest.fixture(scope="module", params=SHARED)
def real_file(request: pytest.FixtureRequest) -> Path:
    """The scope groups the tests by file, so that few files are loaded twice."""
    return request.param  # type: ignore[no-any-return]


LOW = "\u2581"
TO_SPACE = decoders.Replace(LOW, " ")
FUSE = decoders.Fuse()
STRIP = decoders.Strip(" ", 1, 0)


@pytest.mark.parametrize(
    "chain",
    [
        [FUSE, decoders.Replace(Regex(" +"), " ")],
        [FUSE, decoders.Replace("", "-")],
        [FUSE, decoders.Strip(" ", 0, 1)],
        [decoders.Strip(" ", 0, 1)],
        [decoders.Strip(" ", 1, 1), FUSE],
        [FUSE, TO_SPACE, STRIP],
        [FUSE, STRIP, STRIP],
        [FUSE, decoders.ByteLevel()],
        [FUSE, decoders.ByteFallback()],
        [FUSE, decoders.Metaspace()],
        [FUSE, decoders.WordPiece()],
        [FUSE, decoders.BPEDecoder()],
        [FUSE, decoders.CTC()],
        [decoders.ByteFallback(), STRIP],
        [decoders.ByteFallback(), TO_SPACE, FUSE],
        [decoders.ByteFallback(), FUSE, decoders.Metaspace()],
        [decoders.Metaspace(), TO_SPACE],
        [decoders.Metaspace(), decoders.Metaspace()],
        [decoders.WordPiece(), STRIP, FUSE],
        [decoders.CTC(), decoders.ByteFallback()],
    ],
)
def test_a_chain_that_cannot_be_compiled(chain: list[decoders.Decoder]) -> None:
    assert rules_of(*chain) is None


def test_the_library_is_asked_which_tokens_it_skips_where_it_may_panic() -> None:
    tokenizer = wrapped("strip_stop")
    for token in ("<s>", "</s>", "<pad>"):
        assert tokenizer.is_skipped(tokenizer.token_to_id(token) or 0)


def test_the_fingerprint_does_not_change_with_releases() -> None:
    """A snapshot of an old release names the tokenizer by these digits."""
    assert HuggingFaceTokenizer(words()).fingerprint == "806c9bc13759d742"
    fallback = words(decoders.Sequence([TO_SPACE, decoders.ByteFallback(), FUSE, STRIP]))
    fallback.add_special_tokens(["</s>"])
    assert HuggingFaceTokenizer(fallback).fingerprint == "154fa75e6b13d027"


@pytest.mark.parametrize("name", ALL)
def test_the_sample_has_the_ends_the_bytes_and_the_added_tokens(name: str) -> None:
    tokenizer, library = wrapped(name), ALL[name]()
    sample = tokenizer.sample_ids()
    assert len(sample) == len(set(sample)) <= 450
    assert sample == HuggingFaceTokenizer(library).sample_ids()
    assert {0, *library.get_added_tokens_decoder()} <= {*sample}
    assert library.get_vocab_size(with_added_tokens=False) - 1 in sample


@pytest.mark.parametrize("name", ["bpe_suffix", "metaspace_always", "wordpiece"])
def test_the_bytes_of_a_token_are_those_between_other_tokens(name: str) -> None:
    tokenizer = wrapped(name)
    letter = tokenizer.token_to_id("x")
    assert letter is not None
    for token_id in range(tokenizer.vocab_size):
        data = [tokenizer.token_bytes(each) or b"" for each in (token_id, letter)]
        text = tokenizer.decode([letter, token_id, letter], skip_special_tokens=False)
        assert text.encode() == b"x" + b"".join(data)


def test_an_empty_tokenizer_and_one_with_a_large_id() -> None:
    far = Tokenizer(models.WordLevel({"a": 0, "b": 2**32 - 2}, unk_token="a"))
    assert HuggingFaceTokenizer(far).vocab_size == 2**32 - 1  # without memory for all before
    assert len(HuggingFaceTokenizer(far).fingerprint) == 16
    tokenizer = HuggingFaceTokenizer(Tokenizer(models.BPE()))
    assert tokenizer.vocab_size == 0
    assert tokenizer.sample_ids() == []
    assert tokenizer.decode([1, 2]) == ""
    assert len(tokenizer.fingerprint) == 16


# --- encoding -------------------------------------------------------------------------------------


def test_truncation_and_padding_are_off_and_the_given_tokenizer_keeps_them() -> None:
    """Also where they are turned on later, and where JSON would change the ids."""
    given, moved = words(), moving()
    ours, other = HuggingFaceTokenizer(given), HuggingFaceTokenizer(moved)
    assert ours.encode("a b c").ids == (1, 2, 3)
    for tokenizer in (given, moved):
        tokenizer.enable_truncation(2)
        tokenizer.enable_padding(length=4)
    assert ours.encode("a").ids == (1,)
    assert ours.encode("a b c a b").ids == (1, 2, 3, 1, 2)
    assert given.encode("a b c").ids == [1, 2, 0, 0]
    assert other.encode("<new>b<new>").ids == (5, 4, 5)


@pytest.mark.parametrize("fast", ["off", "now"])
def test_dropout_of_a_file_is_switched_off_with_a_warning(fast: FastMode) -> None:
    """Also for fastokens, which has dropout too: a small one rarely shows in a trial."""
    library = ZOO["byte_level_trained"]()
    data = json.loads(library.to_str())
    data["model"]["dropout"] = 0.002
    with pytest.warns(StreamdecWarning, match="its dropout, .* is switched off"):
        tokenizer = HybridTokenizer(json.dumps(data), fast=fast)
    text = "the the quick brown fox " * 100
    expected = tuple(library.encode(text).ids)
    assert {tokenizer.encode(text).ids for _ in range(20)} == {expected}


def brackets() -> Tokenizer:
    """Words in brackets: <s> begins a text and is special, <x> is added and is not."""
    tokenizer = words()
    tokenizer.add_special_tokens(["<s>", "<unk>"])
    tokenizer.add_tokens(["<x>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[("<s>", 4)]
    )
    return tokenizer


def test_special_tokens_in_a_text_are_parsed_or_text_or_forbidden() -> None:
    ours = HuggingFaceTokenizer(brackets())
    assert ours.encode("a <s> b<x>").ids == (1, 4, 2, 5)
    assert ours.encode("a <s> b<x>", special="text").ids == (1, 0, 2, 5)
    assert ours.encode("a b<x>", special="forbid", add_special_tokens=True).ids == (4, 1, 2, 5)
    for encode in (ours.encode, lambda text, **options: ours.encode_batch([text], **options)):
        with pytest.raises(EncodeError, match="are forbidden: '<s>'"):
            encode("a <s> b", special="forbid")
    with pytest.raises(EncodeError, match=r"are forbidden: '<s>'$"):  # not <unk>, which has an id
        ours.encode("strange <s>", special="forbid")
    with pytest.raises(ValueError, match="'maybe'"):
        ours.encode("a", special="maybe")  # type: ignore[arg-type]


def test_a_special_token_that_is_a_word_of_the_model_as_well() -> None:
    """As ``<extra_id_0>`` of T5: the library gives its id for its letters, said what may be."""
    library = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "<s>": 2}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(["<s>", "<unk>"])
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[("<s>", 2)]
    )
    ours = HuggingFaceTokenizer(library)
    assert ours.encode("a <s> x").ids == (1, 2, 0)
    for special in ("text", "forbid"):
        with pytest.raises(EncodeError, match=r"special tokens.*: '<s>'$"):
            ours.encode_batch(["a", "a <s> x"], special=special)
        options: dict[str, Any] = {"special": special, "add_special_tokens": True}
        assert ours.encode("a x", **options).ids == (2, 1, 0)
    assert ours.encode("<unk>", special="text").ids == (0,)


@pytest.mark.filterwarnings("ignore:.*added tokens have other ids")
def test_untrusted_text_never_encodes_to_a_special_token(real_file: Path) -> None:
    ours = from_file(real_file)
    special = {ours.token_to_id(name): name for name in ours.special_tokens.all}
    unknown = {*ours.encode("\U0010fffd\ufdd0", special="text")}
    for token_id, name in list(special.items())[:40]:
        for text in (name, f"a {name} b", f"a{name}b{name}"):
            spelled = token_id in ours.encode(text).ids
            if spelled and token_id not in unknown:
                with pytest.raises(EncodeError, match="special token"):
                    ours.encode(text, special="forbid")
            try:
                found = {*ours.encode(text, special="text")}
            except EncodeError:
                assert spelled
            else:
                assert special.keys().isdisjoint(found - unknown)


TEXTS = ["quick brown", "Größe", "你好", "😀👍🏽", "\n\t", "don't", "\u2581a", "\x00", "e\u0301"]


@pytest.mark.parametrize("name", OF_EACH_ENCODER)
@given(
    text=st.lists(st.sampled_from([*TEXTS, " ", "<s>", "<|im_end|>", "ü"])).map("".join),
    add=st.booleans(),
    special=st.sampled_from(["parse", "text"]),
)
def test_ids_and_offsets_are_the_librarys(
    name: str, text: str, add: bool, special: Special
) -> None:
    theirs = library(name)
    theirs.encode_special_tokens = special == "text"
    check_alike(wrapped(name), theirs, text, add, special)


def check_alike(
    ours: HuggingFaceTokenizer, theirs: Tokenizer, text: str, add: bool, special: Special
) -> None:
    try:
        expected = theirs.encode(text, add_special_tokens=add)
    except Exception:  # noqa: BLE001 (the library's)
        with pytest.raises(TokenizerLibraryError):
            ours.encode(text, add_special_tokens=add, special=special)
        return
    special_ids = [ours.token_to_id(name) for name in ours.special_tokens.all if name in text]
    if special == "text" and not {*special_ids}.isdisjoint(
        theirs.encode(text, add_special_tokens=False).ids
    ):
        with pytest.raises(EncodeError, match="special tokens that its model cannot encode"):
            ours.encode(text, add_special_tokens=add, special=special)
        return
    found = ours.encode(text, add_special_tokens=add, special=special)
    assert found.ids == tuple(expected.ids)
    assert found.offsets == tuple(expected.offsets)
    assert found.tokens == tuple(map(theirs.id_to_token, expected.ids))
    assert ours.encode_batch([text, text], add_special_tokens=add, special=special) == [found] * 2
    data = text.encode()
    for (start, end), (byte_start, byte_end) in zip(found.offsets, found.byte_offsets, strict=True):
        assert data[byte_start:byte_end] in text[start:end].encode()


def test_size_and_ids_of_real_files_are_the_librarys(real_file: Path) -> None:
    content = real_file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    ours, theirs = from_file(real_file), Tokenizer.from_buffer(content)
    assert ours.vocab_size == max(theirs.get_vocab(with_added_tokens=True).values()) + 1
    theirs.no_truncation()
    theirs.no_padding()
    for text in ("".join(TEXTS), "Hello wide world", "<s>a</s> <|im_end|>", ""):
        for add in (False, True):
            check_alike(ours, theirs, text, add, "parse")


def test_an_added_token_with_another_id_than_declared_is_warned_of() -> None:
    data = json.loads(moving().to_str())
    # A key of that name elsewhere in the file declares no token.
    data["model"]["added_tokens"] = ["a", 5, {"content": 7}]
    with pytest.warns(StreamdecWarning, match=r"JSON text: 1 added .*'<new>' is 2, not 5"):
        HuggingFaceTokenizer(json.dumps(data))


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"t.json", "größe.txt".encode(), b"\xff\xfe.json"])
def test_a_file_of_any_name(name: bytes, tmp_path: Path) -> None:
    if sys.platform != "linux" and name[:1] == b"\xff":
        pytest.skip("other systems refuse such names")
    path = tmp_path / os.fsdecode(name)
    path.write_text(words().to_str(), "utf-8")
    for source in (path, str(path)):
        tokenizer = HuggingFaceTokenizer(source)
        assert tokenizer.decode([1, 2]) == "a b"
        assert repr(str(path)) in repr(tokenizer)
        assert repr(tokenizer).isprintable()


@pytest.mark.parametrize("before", ["", " \r\n\t", "\ufeff", "\ufeff\n"])
def test_the_json_text_of_a_tokenizer_is_loaded(before: str, tmp_path: Path) -> None:
    text = before + words().to_str()
    assert HuggingFaceTokenizer(text).decode([1, 2]) == "a b"
    (tmp_path / "t.json").write_text(text, "utf-8")
    assert HuggingFaceTokenizer(tmp_path / "t.json").decode([1, 2]) == "a b"


def test_a_fast_tokenizer_of_transformers() -> None:
    given = SimpleNamespace(name_or_path="some/model", backend_tokenizer=words())
    tokenizer = HuggingFaceTokenizer(given)
    assert tokenizer.decode([1, 2]) == "a b"
    assert repr(tokenizer) == "HuggingFaceTokenizer('some/model', Joined)"


def test_anything_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"source must be .*, not bytes$"):
        HuggingFaceTokenizer(b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": {"type": "BPE"', "\ud800", "\0"])
def test_a_bad_file_is_named_with_the_reason(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, "utf-8", errors="surrogatepass")
    with pytest.raises(TokenizerLoadError, match=r"bad\.json': not a tokenizer\.json: .+"):
        HuggingFaceTokenizer(path)


def moving() -> Tokenizer:
    """One whose added tokens get other ids when the library reads its JSON."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 4}, unk_token="a"))
    tokenizer.add_special_tokens(["b"])
    tokenizer.add_special_tokens(["<new>"])
    return tokenizer


def test_a_copy_with_other_ids_is_rejected() -> None:
    given = moving()
    assert given.token_to_id("<new>") == 5
    assert Tokenizer.from_str(given.to_str()).token_to_id("<new>") == 2
    pickled = pickle.dumps(HuggingFaceTokenizer(given))
    with pytest.raises(TokenizerLibraryError, match="other added tokens"):
        pickle.loads(pickled)


def test_an_ordinary_token_that_was_special_is_skipped_by_copies_too() -> None:
    library = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    library.add_special_tokens(["<x>"])
    library.add_tokens([AddedToken("<x>", special=False)])
    given = HuggingFaceTokenizer(library)
    for tokenizer in (given, pickle.loads(pickle.dumps(given))):
        assert tokenizer.decode([1, 0]) == "a"
        assert [*map(tokenizer.encode("<x>").ids.count, (0, 1))] == [0, 1]
        assert 1 not in tokenizer.encode("<x>", special="text").ids


def test_other_parts_for_encoding_than_the_given_ones_are_rejected() -> None:
    tokenizer = HuggingFaceTokenizer(moving())
    tokenizer._added_tokens[999] = AddedToken("<far>")  # a copy gives it the next free id
    with pytest.raises(TokenizerLibraryError, match="other added tokens"):
        tokenizer.encode("a", special="text")


def test_an_error_of_a_decoder_written_in_python_is_reported() -> None:
    class Broken:
        def decode_chain(self, tokens: list[str]) -> list[str]:
            raise KeyError("no such thing")

    tokenizer = HuggingFaceTokenizer(words(decoders.Decoder.custom(Broken())))
    with pytest.raises(TokenizerLibraryError, match="no such thing"):
        tokenizer.decode([1])
    with pytest.raises(TokenizerLibraryError, match="PanicException") as caught:
        wrapped("strip_stop").decode([])  # with an exception that is not an Exception
    assert not isinstance(caught.value.__cause__, Exception)


def test_an_object_of_fastokens_is_read_unless_its_ids_would_be_others() -> None:
    """Its JSON may have a hole before an added token, where the library assigns another id."""
    data = json.loads(words().to_str())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    size = len(data["model"]["vocab"])
    for token_id in (size, size + 5):
        data["added_tokens"] = [{"id": token_id, "content": "<x>", **flags}]
        stand_in = SimpleNamespace(to_str=partial(json.dumps, data))
        if token_id == size:
            assert HuggingFaceTokenizer(stand_in).token_to_id("<x>") == size
            continue
        with pytest.raises(TokenizerLoadError, match=f"'<x>' is {size}, not {token_id}"):
            HuggingFaceTokenizer(stand_in)

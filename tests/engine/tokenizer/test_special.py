"""Special tokens against the definition: longest first, each cut out of what is left as text."""

from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer import load_tokenizer
from engine.tokenizer.special import SpecialTokens
from engine.tokenizer.strings import Strings
from engine.tokenizer.vocab import TokenType, Vocab
from tests.engine.tokenizer.vocabs import byte_pairs, metadata

SPACES = " \n\t"
ANY = st.text("ab \n", max_size=20)
SPECIAL = st.lists(st.text("ab ", min_size=1, max_size=4), max_size=6, unique=True)


def vocab(texts: list[str], type: TokenType = TokenType.CONTROL) -> Vocab:
    return Vocab("test", Strings.of(texts), bytearray([type] * len(texts)), memoryview(b""))


def by_definition(
    text: str, specials: list[str], left: set[int], right: set[int]
) -> list[str | int]:
    fragments: list[str | int] = [text] if text else []
    for token in sorted(range(len(specials)), key=lambda t: -len(specials[t])):
        cut: list[str | int] = []
        for fragment in fragments:
            rest = fragment
            while isinstance(rest, str) and (at := rest.find(specials[token])) >= 0:
                before, rest = rest[:at], rest[at + len(specials[token]) :]
                before = before.rstrip(SPACES) if token in left else before
                rest = rest.lstrip(SPACES) if token in right else rest
                cut += [before, token] if before else [token]
            if rest != "":
                cut.append(rest)
        fragments = cut
    return fragments


@given(ANY, SPECIAL, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_equals_its_definition(
    text: str, specials: list[str], left: set[int], right: set[int]
) -> None:
    split = SpecialTokens(vocab(specials), left, right).split
    assert split(text, True) == by_definition(text, specials, left, right)


def test_user_defined_tokens_always_count() -> None:
    both = vocab(["<a>", "<b>"])
    both.types[1] = TokenType.USER_DEFINED
    assert SpecialTokens(both).split("x<a><b>y", False) == ["x<a>", 1, "y"]
    assert SpecialTokens(both).split("x<a><b>y", True) == ["x", 0, 1, "y"]


def test_a_longer_token_further_right_wins() -> None:
    assert SpecialTokens(vocab(["abc", "cdef"])).split("abcdefabc", True) == ["ab", 1, 0]


def test_phi3_tokens_swallow_the_spaces_that_follow() -> None:
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "a", "<|user|>", "<|endoftext|>"]
    meta = metadata(
        {
            "general.name": "Phi3-mini",
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": [0.0] * 7,
            "tokenizer.ggml.token_type": [2, 3, 1, 1, 1, 3, 3],
            "tokenizer.ggml.add_space_prefix": False,
        }
    )
    tokenizer = load_tokenizer(meta)
    assert tokenizer.encode("<|user|> \n a </s> a") == [1, 5, 4, 3, 2, 4]
    assert tokenizer.encode("<|endoftext|> a") == [1, 6, 3, 4]


def test_control_tokens_show_where_an_answer_is_read() -> None:
    tokenizer = load_tokenizer(byte_pairs([], ["[TOOL_CALLS]", "</s>"]))
    ids = tokenizer.encode("a[TOOL_CALLS]b</s>")
    shown = tokenizer.stream(shown={tokenizer.id("[TOOL_CALLS]"), None})
    assert "".join(map(shown.push, ids)) == "a[TOOL_CALLS]b"
    assert tokenizer.decode(ids) == "ab"

"""Pre-tokenizers: what the patterns of their models cut, and that nothing gets lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UnsupportedModel
from engine.tokenizer.patterns import PRE_TOKENIZERS, pre_tokenizer

# Of the reference's table: every name with a pattern there.
_TABLE = """
    llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe
    chatglm-bpe glm4 glm5 qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan solar-open grok-2 qwen35
    gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code mpt olmo jais exaone4
    modern-bert roberta-bpe trillion granite-docling gigachat mellum smollm starcoder refact
    command-r codeshell exaone minerva-7b mellum2 tekken gpt-4o llama4 kanana2 talkie minimax-m2
    deepseek-v3 hunyuan-dense joyai-llm hy_v4 deepseek-llm deepseek-coder falcon bloom poro-chat
    gpt3-finnish viking gemma4 default afmoe bailingmoe bailingmoe2 llada-moe exaone-moe
"""
NAMES = _TABLE.split()

CUTS = [
    ("llama3", "I'LL pay 12345$!\n\n x", ["I", "'LL", " pay", " ", "123", "45", "$!\n\n", " x"]),
    ("qwen2", "a 12\t\tb", ["a", " ", "1", "2", "\t", "\tb"]),
    ("qwen35", "na\u0301ive \u0301", ["na\u0301ive", " \u0301"]),
    ("gpt-2", "I'LL don't 12,5  x", ["I", "'", "LL", " don", "'t", " 12", ",", "5", " ", " x"]),
    ("smollm", "v12 x", ["v", "1", "2", " x"]),
    ("tekken", "HTTPServer camelCase a/\n/", ["HTTPServer", " camel", "Case", " a", "/\n/"]),
    ("gpt-4o", "He'll SAY'S 1234", ["He'll", " SAY'S", " ", "123", "4"]),
    ("deepseek-v3", "x1234漢字か?abc d", ["x", "123", "4", "漢字か", "?abc", " d"]),
    # Its class of punctuation runs from ":" to "~", over the ASCII letters.
    ("deepseek-llm", "né 漢字, 12\n ", ["n", "é", " ", "漢字", ",", " ", "12", "\n", " "]),
    ("deepseek-coder", "ab 12,\n漢", ["ab", " ", "1", "2", ",", "\n", "漢"]),
    ("falcon", "a==b 12345", ["a", "==", "b", " ", "123", "45"]),
    ("bloom", "a b, c", ["a", " b", ",", " c"]),
    ("viking", "ab12", ["ab", "1", "2"]),
    ("gemma4", "a b\n\nc", ["a b", "\n\n", "c"]),
    ("afmoe", "1234567 12 漢字か?ab", ["1", "234", "567", " ", "12", " ", "漢字か", "?ab"]),
    ("bailingmoe", "a 12\n\n\nb", ["a", " ", "1", "2", "\n\n\n", "b"]),
    ("exaone-moe", "two words, 12/", ["two words", ",", " ", "1", "2", "/"]),
    ("default", "a, b 1234", ["a", ",", " b", " ", "123", "4"]),
]


@pytest.mark.parametrize(("name", "text", "words"), CUTS)
def test_words(name: str, text: str, words: list[str]) -> None:
    assert list(pre_tokenizer(name).words(text)) == words


def test_every_name_is_there() -> None:
    assert set(NAMES) <= set(PRE_TOKENIZERS)


@given(st.sampled_from(NAMES), st.text(st.characters(codec="utf-8")))
def test_words_join_to_the_text(name: str, text: str) -> None:
    assert "".join(pre_tokenizer(name).words(text)) == text


def test_a_missing_name_is_the_default() -> None:
    assert pre_tokenizer("") is PRE_TOKENIZERS["default"]


def test_an_unknown_name_lists_the_others() -> None:
    with pytest.raises(UnsupportedModel, match=r"pre-tokenizer 'mystery'.*llama-bpe.*qwen2"):
        pre_tokenizer("mystery")

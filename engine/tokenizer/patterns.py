"""Pre-tokenizers by `tokenizer.ggml.pre`: patterns that split a text before byte-pair merging.

Each name gives the patterns of its model's tokenizer, in their original form, applied one after
the other: each cuts the pieces that the one before left, what it does not match stays a piece.
The names and their groups are llama.cpp's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import regex

from engine.errors import UnsupportedModel


@dataclass(frozen=True)
class PreTokenizer:
    """One way to cut.

    `byte_letters`: merges run over the printable stand-ins of UTF-8 bytes, else over characters,
    with spaces written U+2581. `ignore_merges`: a word that is a token is taken whole. `add_bos`:
    the default where the file does not say.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    byte_letters: bool = True

    @cached_property
    def _compiled(self) -> list["regex.Pattern[str]"]:
        return [regex.compile(pattern) for pattern in self.patterns]

    def words(self, text: str) -> Iterator[str]:
        """The words of `text`; joined they give it back."""
        pieces: Iterable[str] = [text]
        for pattern in self._compiled:
            pieces = _cut(pattern, pieces)
        return iter(pieces)


def _cut(pattern: "regex.Pattern[str]", pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        yield from _words(pattern, piece)


def _words(pattern: "regex.Pattern[str]", text: str) -> Iterator[str]:
    end = 0
    for match in pattern.finditer(text):
        start = match.start()
        if start > end:
            yield text[end:start]
        end = match.end()
        if end > start:
            yield text[start:end]
    if end < len(text):
        yield text[end:]


_CONTRACTION = "'s|'t|'re|'ve|'m|'ll|'d"
# Either case of ASCII only: `(?i:...)` would also take U+017F for an s.
_ANY_CASE = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_TAIL = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"

_LLAMA3 = rf"{_ANY_CASE}|{_WORD}|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_ANY_CASE}|{_WORD}|\p{{N}}|{_TAIL}"
_QWEN35 = (
    rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACE}"
)
_GPT2 = rf"{_CONTRACTION}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"

# Llama 3's, but long spaces are cut in powers of two.
_SPACES = "|".join(rf"\s{{{2**n}}}(?!\S)" for n in range(9, 1, -1))
_JAIS2 = (
    rf"{_ANY_CASE}|{_WORD}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+"
    rf"|{_SPACES}|\s{{1,2}}(?!\S)|\s"
)
_MINICPM5 = (r"\p{N}{1,3}", rf"{_ANY_CASE}|{_WORD}|\p{{N}}+|{_TAIL}")

# Words with their capitals first: "HTTPServer" is one word, "camelCase" two.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_FIRST = r"[^\r\n\p{L}\p{N}]?"
_CASED_TAIL = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"
_TEKKEN = rf"{_FIRST}{_UPPER}*{_LOWER}+|{_FIRST}{_UPPER}+{_LOWER}*|\p{{N}}|{_CASED_TAIL}"
_GPT4O = (
    rf"{_FIRST}{_UPPER}*{_LOWER}+(?:{_ANY_CASE})?|{_FIRST}{_UPPER}+{_LOWER}*(?:{_ANY_CASE})?"
    rf"|\p{{N}}{{1,3}}|{_CASED_TAIL}"
)

# Qwen 2's, but line ends stay apart from symbols.
_SEED = rf"{_ANY_CASE}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+|{_SPACE}"

# As GPT-4o's with Han characters apart, as Moonshot's own tokenizer has it.
_UPPER_K2, _LOWER_K2 = rf"(?:(?!\p{{Han}}){_UPPER})", rf"(?:(?!\p{{Han}}){_LOWER})"
_KIMI_K2 = (
    rf"\p{{Han}}+|{_FIRST}{_UPPER_K2}*{_LOWER_K2}+(?:{_ANY_CASE})?"
    rf"|{_FIRST}{_UPPER_K2}+{_LOWER_K2}*(?:{_ANY_CASE})?|\p{{N}}{{1,3}}|{_TAIL}"
)

_CJK_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    _CJK_KANA,
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACE}",
)

# As GPT-4o's with single digits; Hangul, signs of full width, Bopomofo, Han and kana apart.
_YOUTU = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\u3105-\u312f]+"
    "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
    rf"|{_CJK_KANA}",
    _GPT4O.replace(r"\p{N}{1,3}", r"\p{N}"),
)
# As DeepSeek-V3's, but line ends stay apart from symbols, and from each other.
_SPARK = (*_DEEPSEEK3[:2], _DEEPSEEK3[2].replace(r"+[\r\n]*|" + _SPACE, r"+|[\r\n]|\s+(?!\S)|\s+"))
# Words are whole texts between digits, which are cut in threes from the right.
_SUPERBPE = (r"\p{N}+", r"(?=(?:\d{3})+(?!\d))")
_CHAMELEON = (
    r"<sentinel:[0-9]+>",
    r"IMGIMG[A-I]{1,4}Z",
    r"[\t\n]|    |  ",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    _GPT2,
)

# Digits in threes from the right; Han, kana, Hangul and scripts of South-East Asia apart.
_AFMOE = (
    r"(?<!\p{N})\p{N}{1,2}(?=(?:\p{N}{3})+(?!\p{N}))|\p{N}{1,3}",
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff"
    "\uac00-\ud7af\u1100-\u11ff]+",
    _DEEPSEEK3[-1],
)
# Words with the spaces between them are one piece.
_EXAONE_MOE = (
    rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)

# Letters of scripts with two cases, as the tokenizer of DeepSeek LLM lists them.
_CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-"
    "\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
    "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-"
    "\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc"
    "\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-"
    "\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-"
    "\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-"
    "\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-"
    "\U000118df\U0001e900-\U0001e943"
)
_CJK_HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_CASED_LETTERS}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+\Z",
    _CJK_HANGUL,
    r"\p{N}+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_HANGUL, r"\p{N}")

_FALCON = (r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")
_DEFAULT = (r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

_GROUPS: tuple[tuple[str, PreTokenizer], ...] = (
    ("default", PreTokenizer(_DEFAULT)),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), ignore_merges=True)),
    (
        "qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan solar-open grok-2 kormo f2llmv2"
        " bailingmoe bailingmoe2 llada-moe",
        PreTokenizer((_QWEN2,)),
    ),
    ("qwen35", PreTokenizer((_QWEN35,))),
    (
        "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code mpt olmo jais"
        " exaone4 modern-bert roberta-bpe trillion granite-docling gigachat mellum a.x-4.0",
        PreTokenizer((_GPT2,)),
    ),
    (
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
        PreTokenizer((r"\p{N}", _GPT2)),
    ),
    ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", PreTokenizer((_GPT4O,))),
    ("granite-embed-multi-97m", PreTokenizer((_GPT4O,), ignore_merges=True)),
    ("tiny_aya cohere2moe", PreTokenizer((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O))),
    ("seed-coder", PreTokenizer((_SEED,))),
    ("laguna", PreTokenizer((r"[^\n]+|\n+", _QWEN2))),
    ("kimi-k2", PreTokenizer((_KIMI_K2,))),
    ("afmoe", PreTokenizer(_AFMOE)),
    ("exaone-moe", PreTokenizer((_EXAONE_MOE,))),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", PreTokenizer(_DEEPSEEK3)),
    ("youtu", PreTokenizer(_YOUTU, ignore_merges=True)),
    ("spark2_5", PreTokenizer((*_SPARK, r"\p{N}"))),
    ("superbpe", PreTokenizer(_SUPERBPE)),
    ("chameleon", PreTokenizer(_CHAMELEON, add_bos=True)),
    ("deepseek-llm", PreTokenizer(_DEEPSEEK_LLM)),
    ("deepseek-coder", PreTokenizer(_DEEPSEEK_CODER)),
    ("falcon", PreTokenizer(_FALCON)),
    ("jais-2", PreTokenizer((_JAIS2,))),
    ("minicpm5", PreTokenizer(_MINICPM5, ignore_merges=True)),
    ("bloom poro-chat gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("viking", PreTokenizer((_BLOOM, r"\p{N}"))),
    (
        "gemma4 granite-embed-multi-311m",
        PreTokenizer((r"[^\n]+|\n+",), add_bos=True, byte_letters=False),
    ),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    name: how for names, how in _GROUPS for name in names.split()
}


def pre_tokenizer(name: str) -> PreTokenizer:
    """Return the pre-tokenizer of that name, "" being "default"; UnsupportedModel for one without
    patterns here.
    """
    found = PRE_TOKENIZERS.get(name or "default")
    if found is None:
        raise UnsupportedModel("pre-tokenizer", name, sorted(PRE_TOKENIZERS))
    return found

"""The vocabulary: byte pairs of the words that are asked and answered, bytes for all others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import gguf

from engine.gguf import open_gguf
from engine.tokenizer import load_tokenizer
from tests.demo.questions import FOLLOWED, KINDS, ask, reworded
from tests.demo.scenes import random_scene
from tests.demo.talk import NO_PICTURE, SMALL_TALK
from tests.goldens.vision.layout import File

PAD, EOS, BOS, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
TURN, TURN_END = "<start_of_turn>", "<end_of_turn>"
IMAGE, IMAGE_ROW, IMAGE_END = "<start_of_image>", "<image_soft_token>", "<end_of_image>"
MARKS = (TURN, TURN_END, IMAGE, IMAGE_END, IMAGE_ROW)
# Gemma 3's, of what this model was trained on: no system message, pictures as parts of content.
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else 'user' }}\n"
    "{% if message['content'] is string %}{{ message['content'] | trim }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>"
    "{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)

_SPACE = "\u2581"
_SCENES = 1500


@lru_cache
def tokens() -> list[str]:
    """Every token's text, by id; the same in every run."""
    characters = [_SPACE, "\n", *map(chr, range(33, 127))]
    pieces = [*_merges(_words()), "\n\n\n", "\n\n", *characters]
    return [*SPECIAL, *MARKS, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]


def metadata() -> dict[str, Any]:
    """The keys of a GGUF file that hold the vocabulary and the chat template."""
    texts = tokens()
    marked = len(SPECIAL) + len(MARKS)
    pieces = len(texts) - marked - 256
    kinds = [gguf.TokenType.CONTROL] * marked + [gguf.TokenType.BYTE] * 256
    kinds[UNKNOWN] = gguf.TokenType.UNKNOWN
    keys = {
        "model": "llama",
        "pre": "default",
        "tokens": texts,
        "scores": [0.0] * (marked + 256) + [-float(i) for i in range(pieces)],
        "token_type": [int(kind) for kind in kinds + [gguf.TokenType.NORMAL] * pieces],
        "padding_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
        "unknown_token_id": UNKNOWN,
        "eot_token_id": len(SPECIAL) + MARKS.index(TURN_END),
        "add_bos_token": True,
        "add_space_prefix": False,
    }
    named = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    return named | {"tokenizer.chat_template": TEMPLATE}


def tokenizer() -> Callable[[str], list[int]]:
    """The ids of a text as the engine's tokenizer gives them, marks in the text being tokens."""
    with TemporaryDirectory() as folder:
        path = File("gemma3", metadata(), {}).write(Path(folder) / "vocabulary.gguf")
        with open_gguf(path) as file:
            return partial(load_tokenizer(file.metadata).encode, add_special=False)


def _words() -> list[str]:
    """What stands between spaces in questions and answers, a space before it belonging to it."""
    random = Random(0)
    texts = {"And", "user\n", "model\n", NO_PICTURE}
    texts |= {text for pair in SMALL_TALK for text in pair}
    for _ in range(_SCENES):
        scene = random_scene(random)
        for kind in KINDS:
            asked = ask(scene, kind, random)
            if asked is not None:
                texts |= {asked.text, reworded(asked.text, random), asked.answer}
                if kind in FOLLOWED:
                    texts.add(asked.following().text.lower())
    return sorted({word for text in texts for word in re.findall(r" ?[A-Za-z]+\n?", text)})


def _merges(words: Iterable[str]) -> list[str]:
    """Joined pairs, the commonest first, until each word is one token (Sennrich et al. 2016)."""
    cut = [list(word.replace(" ", _SPACE)) for word in words]
    made: list[str] = []
    while pairs := Counter(pair for word in cut for pair in pairwise(word)):
        # Of equally common pairs the first in the alphabet, so that the order is always the same.
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        made.append(left + right)
        cut = [_joined(word, left, right) for word in cut]
    return made


def _joined(word: list[str], left: str, right: str) -> list[str]:
    joined: list[str] = []
    for piece in word:
        if joined and joined[-1] == left and piece == right:
            joined[-1] = left + right
        else:
            joined.append(piece)
    return joined

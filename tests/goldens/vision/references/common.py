"""What the references share: weights, pictures, token ids, and how a case is computed.

Everything runs in float32 with eager attention and without a cache: each step of the greedy
continuation computes the whole sequence again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jinja2 import Environment
from PIL import Image
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedModel

from tests.goldens.tiny import Draws
from tests.goldens.vision.store import Case, Seen
from tests.goldens.vision.words import MERGES, Vocabulary

LOGITS, ANSWER = 40, 16
"""Positions whose logits are kept, and tokens of the greedy continuation."""

WORDS = (
    *("the heat of a stone", "then she ate on the rest", "in the east a red hen", "he has no hat"),
    *("that is a sheet", "rain on tin", "an old oath", "the tenth one", "sea and sand"),
)
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class Shown(NamedTuple):
    """A picture's width and height, and its views normalised: float32 [v, 3, h, w]."""

    width: int
    height: int
    pixels: Tensor


@dataclass(frozen=True)
class Reference:
    """A family as `make.py` wants it.

    `views` cuts a picture into what the tower sees, uint8 [v, h, w, 3]. `expand` replaces what the
    template printed for the pictures by the marks and as many `placeholder` tokens as rows follow.
    `rows` computes the rows of one picture, `logits` those of a whole sequence with all its
    pictures. `gains` scales what `weights` draws, or shifts norms, by
    a pattern of names. `seed` is one with which no greedy token is the placeholder, which
    transformers would take for a picture's row.
    """

    model: Callable[[], PreTrainedModel]
    vocabulary: Vocabulary
    cases: Mapping[str, Sequence[Mapping[str, Any]]]
    placeholder: str | None
    mean: Sequence[float]
    std: Sequence[float]
    views: Callable[[np.ndarray], np.ndarray]
    expand: Callable[[str, Sequence[np.ndarray]], str]
    rows: Callable[[Any, Shown], Tensor]
    logits: Callable[[Any, Tensor, Sequence[Shown]], Tensor]
    gains: Mapping[str, float] = field(default_factory=dict)
    seed: int = 1


def weights(model: PreTrainedModel, gains: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Random weights that float16 holds exactly, for each parameter by the order of names.

    A matrix makes outputs about as large as its inputs; those of queries and keys twice as large,
    which makes attention prefer a few places. Norms lie around 1 (Gemma's, which add it, around 0).
    """
    draws = Draws(seed)
    made = {}
    tied = {name for name in model.state_dict() if name.endswith("lm_head.weight")}
    tied = tied if model.config.get_text_config().tie_word_embeddings else set()
    for name in sorted(set(dict(model.named_parameters())) - tied):
        shape = tuple(model.get_parameter(name).shape)
        gain = next((g for pattern, g in gains.items() if re.search(pattern, name)), None)
        made[name] = _draw(draws, name, shape, gain)
    return made


def _draw(draws: Draws, name: str, shape: tuple[int, ...], gain: float | None) -> np.ndarray:
    values = draws.uniform(*shape)
    is_norm = re.search(r"norm\d?\.weight|ln_(q|pre)\.weight|layrnorm\.weight|lambda_", name)
    if is_norm:
        start = 1 if gain is None else gain
        # Steps of 1/1024, so that 1 + weight is exact too.
        return (np.round((start + values / 2) * 1024) / 1024).astype(np.float16)
    if "embed_tokens" in name:
        return (values * (gain or 1.5)).astype(np.float16)
    if len(shape) == 1 or "position" in name or "class" in name:
        return (values * (gain or 0.5)).astype(np.float16)
    if gain is None:
        gain = 2.0 if re.search(r"(?<!cross_attn\.)[qk]_proj\.weight", name) else 1.0
    # Llama 4's experts are stored as [experts, in, out], all others as [out, in ...].
    columns = shape[1] if "experts" in name else int(np.prod(shape[1:]))
    return (values * gain * np.sqrt(3 / columns)).astype(np.float16)


def load(model: PreTrainedModel, state: Mapping[str, np.ndarray]) -> PreTrainedModel:
    """The model with these weights, in float32; every weight must be one of the model's."""
    given = {n: torch.from_numpy(v.astype(np.float32)) for n, v in state.items()}
    missing, unexpected = model.load_state_dict(given, strict=False)
    untied = [name for name in missing if not name.endswith("lm_head.weight")]
    if unexpected or set(untied) & set(dict(model.named_parameters())):
        raise ValueError(f"missing {untied}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval()


def picture(width: int, height: int, seed: int) -> np.ndarray:
    """Waves with a little noise, uint8 [height, width, 3]."""
    draws = Draws(seed)
    y, x = np.mgrid[:height, :width]
    turns = draws.uniform(3, 3) * 9
    waves = [np.sin(x / width * a + y / height * b + c) for a, b, c in turns]
    noise = draws.uniform(height // 4 + 1, width // 4 + 1, 3).repeat(4, 0).repeat(4, 1)
    noise = noise[:height, :width]
    return np.round(127.5 + 90 * np.stack(waves, -1) + 37 * noise).clip(0, 255).astype(np.uint8)


def parts(*content: str | tuple[int, int]) -> list[dict[str, Any]]:
    """A user's message of texts and of pictures, which are given by their (width, height)."""
    made: list[dict[str, Any]] = []
    for i, part in enumerate(content):
        if isinstance(part, str):
            made.append({"type": "text", "text": part})
        else:
            made.append({"type": "image", "picture": picture(*part, seed=10 + i)})
    return [{"role": "user", "content": made}]


def words(count: int) -> str:
    """That many phrases."""
    return ", ".join(WORDS[i % len(WORDS)] for i in range(count))


def tokenizer(vocabulary: Vocabulary, placeholder: str | None) -> Tokenizer:
    """The vocabulary in Hugging Face's `tokenizers`; `placeholder` may be a token beyond it."""
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    if vocabulary.sentencepiece:
        pieces = sorted(ids, key=lambda t: (-vocabulary.scores()[ids[t]], ids[t]))
        pieces = [t for t in pieces if not t.startswith("<") and len(t) > 1]
        merges = [(t[:i], t[i:]) for t in pieces for i in range(1, len(t))]
        merges = [pair for pair in merges if pair[0] in ids and pair[1] in ids]
        model = models.BPE(ids, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
        made = Tokenizer(model)
        made.normalizer = normalizers.Replace(" ", "▁")
        made.decoder = decoders.ByteFallback()
    else:
        # A word that is a token is taken whole, whichever merges lead there.
        whole = vocabulary.pre in ("tekken", "llama-bpe")
        pairs = [tuple(merge.split()) for merge in MERGES]
        made = Tokenizer(models.BPE(ids, pairs, ignore_merges=whole))
        rule = GPT2 if vocabulary.pre == "smollm" else QWEN
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(rule), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    special = dict.fromkeys([*vocabulary.special, placeholder or vocabulary.eos])
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return made


def rendered(vocabulary: Vocabulary, messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages in the family's chat template, and the beginning of the answer."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(vocabulary.template)
    return template.render(
        messages=messages,
        add_generation_prompt=True,
        bos_token=vocabulary.bos,
        eos_token=vocabulary.eos,
    )


def normalised(views: np.ndarray, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """uint8 [v, h, w, 3] as float32 [v, 3, h, w]."""
    values = (views.astype(np.float32) / np.float32(255) - np.float32(mean)) / np.float32(std)
    return torch.from_numpy(np.ascontiguousarray(values.transpose(0, 3, 1, 2), np.float32))


def tiles(picture: np.ndarray, side: int) -> np.ndarray:
    """A picture whose sides are multiples of `side` cut into squares, row by row."""
    height, width = picture.shape[:2]
    rows = picture.reshape(height // side, side, width // side, side, 3)
    return rows.swapaxes(1, 2).reshape(-1, side, side, 3)


def overview(picture: np.ndarray, side: int, filter_: Image.Resampling) -> np.ndarray:
    """The whole picture stretched to one square, by Pillow: uint8 [1, side, side, 3]."""
    return np.asarray(Image.fromarray(picture).resize((side, side), filter_))[None]


def replaced(text: str, printed: str, marks: Sequence[str]) -> str:
    """Each occurrence of `printed` replaced by the next of `marks`."""
    first, *rest = text.split(printed)
    if len(rest) != len(marks):
        raise ValueError(f"{len(rest)} times {printed} in a text for {len(marks)} pictures")
    return first + "".join(mark + piece for mark, piece in zip(marks, rest, strict=True))


def merged_logits(
    rows: Callable[[Any, Shown], Tensor], placeholder: int
) -> Callable[[Any, Tensor, Sequence[Shown]], Tensor]:
    """For families that see pictures one at a time: rows stand in for what the words would be."""

    def logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
        is_row = ids == placeholder
        embeddings = model.get_input_embeddings()(ids.masked_fill(is_row, 0))
        embeddings[is_row] = torch.cat([rows(model, picture) for picture in shown])
        return model(inputs_embeds=embeddings).logits[0]

    return logits


def compute(reference: Reference, model: PreTrainedModel, name: str) -> Case:
    """Everything of one case."""
    messages = reference.cases[name]
    content = [part for message in messages for part in message["content"]]
    pictures = [part["picture"] for part in content if "picture" in part]
    views = [reference.views(picture) for picture in pictures]
    shown = [
        Shown(picture.shape[1], picture.shape[0], normalised(v, reference.mean, reference.std))
        for picture, v in zip(pictures, views, strict=True)
    ]
    with torch.no_grad():
        rows = [reference.rows(model, each).numpy() for each in shown]
        text = reference.expand(rendered(reference.vocabulary, messages), pictures)
        if reference.vocabulary.add_bos and not text.startswith(reference.vocabulary.bos):
            text = reference.vocabulary.bos + text
        words = tokenizer(reference.vocabulary, reference.placeholder)
        ids = words.encode(text, add_special_tokens=False).ids
        sequence, margins = list(ids), []
        for step in range(ANSWER):
            logits = reference.logits(model, torch.tensor([sequence]), shown)
            if step == 0:
                kept = logits[-LOGITS:].numpy()
            first, second = logits[-1].topk(2).values.tolist()
            margins.append(first - second)
            sequence.append(int(logits[-1].argmax()))
    placeholder = words.token_to_id(reference.placeholder or "")
    told = np.array([-1 if i == placeholder else i for i in ids], np.int32)
    return Case(
        name,
        tuple(part.get("text") for part in content),
        tuple(map(Seen, pictures, views, rows)),
        told,
        kept,
        np.array(sequence[len(ids) :], np.int32),
        np.array(margins, np.float32),
    )


def eager(model: type[PreTrainedModel], config: Any) -> PreTrainedModel:
    """An empty model in float32 whose attention is written out."""
    torch.set_default_dtype(torch.float32)
    config._attn_implementation = "eager"
    return model._from_config(config, attn_implementation="eager")

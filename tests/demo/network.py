"""The network's sizes, pictures as its pixels, and the heads that teach its tower to look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    SiglipVisionConfig,
)

from tests.demo.scenes import COLOURS, FORMS, SIDE, SIZES, Scene

WIDTH, FEED_FORWARD, HEADS = 192, 576, 6
KV_HEADS, TEXT_LAYERS, TOWER_LAYERS = 2, 6, 4
HEAD_SIZE = WIDTH // HEADS
IMAGE_SIZE, PATCH = 64, 8
CELLS_PER_SIDE = 4
ROWS = CELLS_PER_SIDE**2
CONTEXT, WINDOW = 2048, 512

_CELL = SIDE / CELLS_PER_SIDE
_NOTHING = len(FORMS)


def new_network(
    vocabulary: int, begin: int = 4, end: int = 5, row: int = 6
) -> Gemma3ForConditionalGeneration:
    """Random weights; `begin`, `row` and `end` are the ids of an image's marks and rows."""
    text = Gemma3TextConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=TEXT_LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_SIZE,
        query_pre_attn_scalar=HEAD_SIZE,
        sliding_window=WINDOW,
        max_position_embeddings=CONTEXT,
    )
    tower = SiglipVisionConfig(
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=TOWER_LAYERS,
        num_attention_heads=HEADS,
        image_size=IMAGE_SIZE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    config = Gemma3Config(
        text_config=text,
        vision_config=tower,
        mm_tokens_per_image=ROWS,
        boi_token_index=begin,
        eoi_token_index=end,
        image_token_index=row,
    )
    network = Gemma3ForConditionalGeneration(config)
    # transformers starts the projection at zero, from where nothing is learnt.
    nn.init.normal_(network.model.multi_modal_projector.mm_input_projection_weight, std=WIDTH**-0.5)
    return network


def pixels(pictures: Sequence[Image.Image]) -> Tensor:
    """What enters the tower, by Gemma 3's rule: float32 [pictures, 3, 64, 64] in [-1, 1]."""
    size = (IMAGE_SIZE, IMAGE_SIZE)
    small = [np.asarray(p.resize(size, Image.Resampling.BILINEAR)) for p in pictures]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).float() / 127.5 - 1


class Heads(nn.Module):
    """Reads from each image row which shape has its centre in the row's cell; thrown away later."""

    def __init__(self) -> None:
        super().__init__()
        self.form = nn.Linear(WIDTH, len(FORMS) + 1)
        self.colour = nn.Linear(WIDTH, len(COLOURS))
        self.size = nn.Linear(WIDTH, len(SIZES))
        self.centre = nn.Linear(WIDTH, 2)

    def loss(self, rows: Tensor, scenes: Sequence[Scene]) -> tuple[Tensor, float]:
        """The loss over rows [pictures, 16, width], and the part of pictures read rightly."""
        classes, centres = targets(scenes)
        form, colour, size = classes.unbind(-1)
        taken = form != _NOTHING
        forms = self.form(rows)
        shapes = rows[taken]
        colours, sizes = self.colour(shapes), self.size(shapes)
        loss = (
            4 * F.cross_entropy(forms.flatten(0, 1), form.flatten())
            + F.cross_entropy(colours, colour[taken])
            + F.cross_entropy(sizes, size[taken])
            + 20 * F.mse_loss(self.centre(shapes), centres[taken])
        )
        right = forms.argmax(-1) == form
        right[taken] &= (colours.argmax(-1) == colour[taken]) & (sizes.argmax(-1) == size[taken])
        return loss, right.all(-1).float().mean().item()


def targets(scenes: Sequence[Scene]) -> tuple[Tensor, Tensor]:
    """Per cell (form, colour, size) [pictures, 16, 3], and the centre in the picture, -1 to 1."""
    classes = torch.zeros(len(scenes), ROWS, 3, dtype=torch.long)
    classes[:, :, 0] = _NOTHING
    centres = torch.zeros(len(scenes), ROWS, 2)
    colours = tuple(COLOURS)
    for i, scene in enumerate(scenes):
        for shape in scene:
            cell = int(shape.y // _CELL) * CELLS_PER_SIDE + int(shape.x // _CELL)
            classes[i, cell] = torch.tensor(
                [FORMS.index(shape.form), colours.index(shape.colour), SIZES.index(shape.size)]
            )
            centres[i, cell] = torch.tensor([shape.x, shape.y]) * (2 / SIDE) - 1
    return classes, centres

"""The items that a model reads, with their text, and which of them it still had for its answer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.protocol import ContextItems, Examine, Generate
from engine.runner.loading import LoadedModel
from engine.runner.pictures.compose import placed_rows
from engine.runner.pictures.items import Item, Shown
from engine.runner.prompt import Prompt, make_prompt
from engine.runner.sequence import Sequenced
from engine.tokenizer import Tokenizer

_ALIKE = 16  # tokens in a row that are the same by chance in no two places
_NO_LIMIT = 1 << 30


def context_of(model: LoadedModel, conversation: Sequenced, request: Examine) -> Prompt:
    """The items that a request names, of which the last may be one more than the context holds.

    Where they are more, those that the conversation has forgotten are left out; where it is another
    one, they are cut as an answer's prompt would be. Raises as `make_prompt`.
    """
    same = Generate(
        request.id,
        messages=request.messages,
        prompt=request.prompt,
        prefix=request.prefix,
        prefix_tokens=request.prefix_tokens,
        tools=request.tools,
    )
    room = conversation.n_ctx + (request.at is not None)
    arguments, start = (model.tokenizer, model.template, same), model.built.model.start
    prompt = make_prompt(*arguments, _NO_LIMIT, conversation.viewer, start)
    if len(prompt.items) <= room:
        return prompt
    held = as_held(prompt.items, conversation.items)
    if held is not None and len(held) <= room:
        return replace(prompt, items=held)
    return make_prompt(*arguments, room + 1, conversation.viewer, start)


def as_held(items: Sequence[Item], held: Sequence[Item]) -> list[Item] | None:
    """The items without the run of them that is not among those `held`: a shift of the context
    leaves such a gap. None where there is none.
    """
    begin = 0
    while begin < min(len(items), len(held)) and items[begin] == held[begin]:
        begin += 1
    rest = held[begin : begin + _ALIKE]
    for end in range(begin + 1, len(items) - len(rest) + 1) if rest else ():
        if items[end] == rest[0] and list(items[end : end + len(rest)]) == list(rest):
            return [*items[:begin], *items[end:]]
    return None


def context_items(
    tokenizer: Tokenizer, items: Sequence[Item], pictures: Sequence[Shown]
) -> ContextItems:
    """Each item's id and the end of its text; rows of pictures take no text."""
    stream = tokenizer.stream(special=True, whole=True)
    pieces: list[str] = []
    ends = np.zeros(len(items), np.int32)
    length = begun = 0  # tokens from `begun` on wait for the rest of their character
    for i, item in enumerate(items):
        piece = stream.push(item) if isinstance(item, int) else stream.flush()
        pieces.append(piece)
        length += len(piece)
        if piece or not isinstance(item, int):
            ends[begun:i] = length
            begun = i + 1
        ends[i] = length
    pieces.append(stream.flush())
    ends[begun:] = length + len(pieces[-1])
    ids = np.array([item if isinstance(item, int) else -1 for item in items], "<i4")
    return ContextItems(
        "".join(pieces), ids.tobytes(), ends.astype("<i4").tobytes(), placed_rows(items, pictures)
    )

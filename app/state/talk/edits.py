"""Edits of answers as a chat keeps them: which results are changed, and in words."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from app.language import decimal, tr
from engine.errors import BadSetting
from engine.protocol import MOST_EDITS, Change, Edit

LONGEST_NAME = 200
MOST_LAYERS = 1024
MOST_MOVES = 200  # values of an answer that changed while it was written
MOST_AT = 1 << 29  # positions
NEVER = -1e30
"""Router logit of an expert that is switched off."""
POSITIONS = re.compile(r"all|prompt|answer|last|-?\d{1,9}|-?\d{0,9}:\d{0,9}", re.ASCII)
PLACES = {
    "heads": tr("attention"),
    "residual": "",
    "attention": tr("attention"),
    "feed_forward": tr("feed-forward"),
    "ffn_moe_logits": "",
    "ffn_moe_down": "",
}
WHERE = {
    "prompt": tr("in the prompt"),
    "answer": tr("in the answer"),
    "last": tr("at the last prompt token"),
}


class ChatEdit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One edit of a chat. `edit` holds no vectors: `directions` is the SHA-256 of those that are
    stored with the chats, a direction for each layer. `name` is what a person calls them.
    """

    edit: Edit
    directions: str = ""
    name: str = ""
    on: bool = True

    @property
    def steers(self) -> bool:
        """True if its strength scales a direction that is added."""
        return bool(self.directions) and self.edit.op == "add"

    def check(self) -> None:
        """Raise `BadSetting` for what no model could do."""
        edit = self.edit
        if not edit.site or len(edit.site) > LONGEST_NAME or not edit.site.isprintable():
            raise BadSetting("site", edit.site[:40], tr("the name of a result"))
        if len(edit.layers) > MOST_LAYERS or any(not 0 <= i < MOST_LAYERS for i in edit.layers):
            raise BadSetting(
                "layers", len(edit.layers), tr("layers from 0 to {last}", last=MOST_LAYERS - 1)
            )
        if not POSITIONS.fullmatch(edit.positions):
            expected = tr("all, prompt, answer, last, a number or a range as 3:8")
            raise BadSetting("positions", edit.positions[:40], expected)
        if not all(abs(n) < 1e38 for n in (edit.value, edit.bias, edit.threshold)):  # nor NaN
            raise BadSetting("value", edit.value, tr("a finite number"))
        if edit.vector or edit.other:
            raise BadSetting("vector", len(edit.vector), tr("none: vectors are kept apart"))
        if self.directions and not re.fullmatch("[0-9a-f]{64}", self.directions):
            raise BadSetting("directions", self.directions[:40], tr("a SHA-256 in hex"))
        if len(self.name) > LONGEST_NAME:
            raise BadSetting("name", self.name[:40], tr("at most {n} characters", n=LONGEST_NAME))


class EditSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """The edits of a chat's next answer, or those that an answer was written with. With a `seed`
    random vectors of the same lengths stand for all directions. `moves` are strengths that were
    changed while the answer was written.
    """

    edits: tuple[ChatEdit, ...] = ()
    on: bool = True
    seed: int | None = None
    moves: tuple["Move", ...] = ()

    def __bool__(self) -> bool:
        return bool(self.edits)

    @property
    def active(self) -> "EditSet":
        """The edits that are on, as an answer keeps them."""
        edits = tuple(one for one in self.edits if one.on) if self.on else ()
        return EditSet(edits, seed=self.seed if edits else None)

    @property
    def directions(self) -> set[str]:
        """Hashes of all directions."""
        return {one.directions for one in self.edits if one.directions}

    def same_places(self, other: "EditSet") -> bool:
        """True if another set differs from this one in values alone."""
        places = [
            [replace(one, edit=replace(one.edit, value=0.0)) for one in edits.edits]
            for edits in (self, other)
        ]
        return places[0] == places[1] and self.seed == other.seed

    def moved(self, other: "EditSet", at: int, n_prompt: int) -> "EditSet":
        """With the values of another set of the same places from item `at` on."""
        values = {n: one.edit.value for n, one in enumerate(self.edits)}
        values |= {move.edit: move.value for move in self.moves}
        new = {n: one.edit.value for n, one in enumerate(other.edits)}
        made = [Move(at, n_prompt, n, value) for n, value in new.items() if value != values[n]]
        return replace(self, moves=(*self.moves, *made))

    def spans(self, number: int) -> list[Edit]:
        """Edit `number` with each of its values, at the positions where it had that."""
        edit = self.edits[number].edit
        moves = [move for move in self.moves if move.edit == number]
        if not moves or edit.positions not in ("all", "answer"):
            return [edit]
        ends = [*(move.at for move in moves), None]
        begins = [0 if edit.positions == "all" else moves[0].n_prompt, *(m.at for m in moves)]
        values = [edit.value, *(move.value for move in moves)]
        return [
            replace(edit, positions=f"{begin}:{'' if end is None else end}", value=value)
            for begin, end, value in zip(begins, ends, values, strict=True)
            if end is None or end > begin
        ]

    def check(self) -> None:
        """Raise `BadSetting` for the first edit that no model could do."""
        if len(self.moves) > MOST_MOVES:
            raise BadSetting("moves", len(self.moves), tr("at most {n}", n=MOST_MOVES))
        for move in self.moves:
            if not (0 <= move.edit < len(self.edits) and 0 <= move.n_prompt <= move.at < MOST_AT):
                raise BadSetting("moves", move.at, tr("positions and numbers of its edits"))
            if not abs(move.value) < 1e38:
                raise BadSetting("moves", move.value, tr("a finite number"))
        if len(self.edits) > MOST_EDITS:
            raise BadSetting("edits", len(self.edits), tr("at most {n}", n=MOST_EDITS))
        for one in self.edits:
            one.check()


class Move(msgspec.Struct, frozen=True):
    """From item `at` on edit number `edit` had another value; the prompt had `n_prompt` items."""

    at: int
    n_prompt: int
    edit: int
    value: float


NO_EDITS = EditSet()


def decoded(column: Any) -> EditSet:
    """A column of the database; no edits where it is damaged."""
    try:
        made = msgspec.json.decode(column, type=EditSet) if column else NO_EDITS
        made.check()
    except (msgspec.MsgspecError, TypeError, ValueError, BadSetting):
        return NO_EDITS
    return made


def encoded(edits: EditSet) -> str:
    """The reverse of `decoded`; empty for no edits."""
    return msgspec.json.encode(edits).decode() if edits else ""


def of_changes(changes: Sequence[Change]) -> EditSet:
    """The edits that do what an older answer's changes did."""
    return EditSet(tuple(ChatEdit(_of_change(change)) for change in changes))


def _of_change(change: Change) -> Edit:
    if change.head is not None:
        return Edit.scale("heads", change.layer, by=change.factor, head=change.head)
    if change.part == "layer":
        return Edit.of("scale", "residual", change.layer, change.factor, delta=True)
    return Edit.scale(change.part, change.layer, by=change.factor)


def words(one: ChatEdit) -> str:
    """An edit as its chip says it: "layer 5 · head 3 off"."""
    edit = one.edit
    place = [_layers(edit.layers)] if edit.layers else []
    part = PLACES.get(edit.site, edit.site)
    if edit.head is not None:
        head = tr("head {head}", head=edit.head)
        part = head if edit.site == "heads" else f"{part} {head}"
    elif edit.expert is not None or _is_expert(edit):
        part = tr("expert {expert}", expert=_expert(edit))
    elif edit.channels is not None:
        first, end = edit.channels
        numbers = tr("channels {first}–{last}", first=first, last=end - 1)
        if end == first + 1:
            numbers = tr("channel {channel}", channel=first)
        part = f"{part} {numbers}".strip()
    place += [part] if part else []
    text = f"{' · '.join(place)} {_does(one)}"
    if edit.positions == "all":
        return text
    where = WHERE.get(edit.positions, tr("at {positions}", positions=edit.positions))
    return f"{text} {where}"


def all_words(edits: EditSet) -> str:
    """All of an answer's edits in one line, which begins with a capital."""
    text = "; ".join(map(words, edits.edits))
    if edits.seed is not None:
        text += tr(" (random control, seed {seed})", seed=edits.seed)
    if edits.moves:
        text += tr("; the strength was changed while the answer was written")
    return text[:1].upper() + text[1:]


def _is_expert(edit: Edit) -> bool:
    return edit.site == "ffn_moe_logits" and edit.channels is not None


def _expert(edit: Edit) -> int | None:
    return edit.channels[0] if _is_expert(edit) and edit.channels is not None else edit.expert


def _layers(layers: Sequence[int]) -> str:
    if len(layers) == 1:
        return tr("layer {layer}", layer=layers[0])
    first, last = min(layers), max(layers)
    if sorted(layers) == list(range(first, last + 1)):
        return tr("layers {first}–{last}", first=first, last=last)
    return tr("{n} layers from {first} to {last}", n=len(layers), first=first, last=last)


def _does(one: ChatEdit) -> str:
    edit, value = one.edit, decimal(f"{one.edit.value:g}")
    name = tr("“{name}”", name=one.name) if one.name else tr("a direction")
    match edit.op:
        case "scale":
            return tr("off") if edit.value == 0 else f"× {value}"
        case "add":
            return f"+ {value} × {name}" if one.directions else f"+ {value}"
        case "set" if one.directions:
            return tr("from {name}", name=name)
        case "set" if edit.value <= NEVER:
            return tr("off")
        case "set":
            return f"= {value}"
        case "project":
            without = tr("without {name}", name=name)
            return without if edit.value == 1 else f"− {value} × {name}"
        case "hold" | "feature":
            return tr("held at {value} along {name}", value=value, name=name)
        case "swap":
            return tr("swapped")

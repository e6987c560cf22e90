"""Questions about a scene, and their answers.

Kinds, with an example of each:

- colour: "What colour is the circle?" "Red."
- form: "What is the red shape?" "A circle."
- size: "What size is the red circle?" "Small."
- place: "Where is the red circle?" "At the top left."
- count: "How many shapes are there?" "Three."
- exists: "Is there a red circle?" "Yes."
- larger: "Which is larger, the red circle or the blue star?" "The blue star."
- beside: "What is to the left of the red circle?" "A blue star." or "Nothing."
- describe: "Describe the picture." "A small red circle at the top left and a large blue star in the
  middle."

A question is put only where a person would have no doubt about the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.demo.scenes import COLOURS, FORMS, Scene, Shape

NUMBERS = ("None", "One", "Two", "Three", "Four")

# Kinds of which a follow-up names another shape only.
FOLLOWED = ("colour", "size", "place")

# Between these distances two centres are neither level nor clearly one beside the other.
_LEVEL, _BESIDE = 4.0, 8.0
# How often a question names a form that is not in the picture.
_ABSENT = 0.08
# How often a question after what is beside a shape is dropped, if nothing is.
_DULL = 0.6
_SIDES: dict[str, tuple[str, int]] = {
    "to the left of": ("x", -1),
    "to the right of": ("x", 1),
    "above": ("y", -1),
    "below": ("y", 1),
}


@dataclass(frozen=True)
class Question:
    """One question of a kind, with its answer."""

    kind: str
    text: str
    answer: str

    def following(self) -> Question:
        """The same, asked after another question of its kind: "And the blue star?"."""
        return replace(self, text=f"And {self.text[self.text.index('the ') :]}")


def ask(scene: Scene, kind: str, random: Random) -> Question | None:
    """A question of `kind`, or None where this scene has none without doubt."""
    asked = KINDS[kind](scene, random)
    return None if asked is None else Question(kind, *asked)


def is_right(said: str, answer: str) -> bool:
    """Whether the words are the same; capitals, commas and full stops do not count."""
    return _words(said) == _words(answer)


def reworded(question: str, random: Random) -> str:
    """The question as a hasty or an American person may type it."""
    if random.random() < 0.15:
        question = question.lower()
    if random.random() < 0.15:
        question = question.rstrip("?.")
    if random.random() < 0.25:
        question = question.replace("colour", "color")
    return question


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


Asked = tuple[str, str] | None


def _colour(scene: Scene, random: Random) -> Asked:
    shape, name = _named(scene, random, ("form", "size form"))
    text = random.choice((f"What colour is the {name}?", f"Which colour is the {name}?"))
    return _told(text, name, shape and shape.colour)


def _form(scene: Scene, random: Random) -> Asked:
    shape, name = _named(scene, random, ("colour", "size colour", "size"))
    if shape is None:
        return None
    text = (f"What is the {name} shape?", f"What shape is the {name} thing?")
    if name == shape.colour:
        text += (f"What shape is {name}?", f"Which shape is {name}?")
    return random.choice(text), f"A {shape.form}."


def _size(scene: Scene, random: Random) -> Asked:
    shape, name = _named(scene, random, ("form", "colour form"))
    text = (f"What size is the {name}?", f"How large is the {name}?", f"How big is the {name}?")
    return _told(random.choice(text), name, shape and shape.size)


def _place(scene: Scene, random: Random) -> Asked:
    shape, name = _named(scene, random, ("form", "colour form"))
    return _told(f"Where is the {name}?", name, shape and shape.place)


def _count(scene: Scene, random: Random) -> Asked:
    if random.random() < 0.5:
        things = random.choice(("shapes", "things"))
        text = (f"How many {things} are there?", f"How many {things} do you see?")
        return random.choice(text), f"{NUMBERS[len(scene)]}."
    pick = random.choice(scene)
    if random.random() < 0.5:
        form = random.choice((pick.form, random.choice(FORMS)))
        plural = form + ("es" if form == "cross" else "s")
        count = sum(s.form == form for s in scene)
    else:
        colour = random.choice((pick.colour, random.choice(tuple(COLOURS))))
        plural, count = f"{colour} shapes", sum(s.colour == colour for s in scene)
    return f"How many {plural} are there?", f"{NUMBERS[count]}."


def _exists(scene: Scene, random: Random) -> Asked:
    pick, other = random.choice(scene), random.choice(scene)
    colours = (pick.colour, other.colour, random.choice(tuple(COLOURS)))
    forms = (pick.form, pick.form, random.choice(FORMS))
    colour, form = random.choice(colours), random.choice(forms)
    if random.random() < 0.25:
        there = any(s.form == form for s in scene)
        return f"Is there {_article(form)} {form}?", _yes(there)
    if random.random() < 0.25:
        return f"Is there anything {colour}?", _yes(any(s.colour == colour for s in scene))
    there = any((s.colour, s.form) == (colour, form) for s in scene)
    return f"Is there {_article(colour)} {colour} {form}?", _yes(there)


def _larger(scene: Scene, random: Random) -> Asked:
    large = [s for s in scene if s.size == "large"]
    small = [s for s in scene if s.size == "small"]
    if not large or not small:
        return None
    pair = random.choice(large), random.choice(small)
    a, b = random.sample(pair, 2)
    larger = random.random() < 0.5
    word = random.choice(("larger", "bigger")) if larger else "smaller"
    right = pair[0] if larger else pair[1]
    text = f"Which is {word}, the {a.colour} {a.form} or the {b.colour} {b.form}?"
    return text, f"The {right.colour} {right.form}."


def _beside(scene: Scene, random: Random) -> Asked:
    shape, name = _named(scene, random, ("colour form", "form"))
    side, (axis, sign) = random.choice(tuple(_SIDES.items()))
    text = f"What is {side} the {name}?"
    if shape is None:
        return _told(text, name, None)
    steps = [(sign * (getattr(s, axis) - getattr(shape, axis)), s) for s in scene if s != shape]
    if any(_LEVEL < step < _BESIDE for step, _ in steps):
        return None
    found = [s for step, s in steps if step >= _BESIDE]
    if not found and random.random() < _DULL:
        return None
    answer = _listed([f"{_article(s.colour)} {s.colour} {s.form}" for s in found])
    return text, _sentence(answer or "nothing")


def _describe(scene: Scene, random: Random) -> Asked:
    text = ("Describe the picture.", "What is in the picture?", "What do you see?")
    parts = [f"a {s.size} {s.colour} {s.form} {s.place}" for s in scene]
    return random.choice(text), _sentence(_listed(parts))


KINDS: dict[str, Callable[[Scene, Random], Asked]] = {
    "colour": _colour,
    "form": _form,
    "size": _size,
    "place": _place,
    "count": _count,
    "exists": _exists,
    "larger": _larger,
    "beside": _beside,
    "describe": _describe,
}


def _named(
    scene: Scene, random: Random, ways: Sequence[str]
) -> tuple[Shape, str] | tuple[None, str]:
    """A shape and a name that only it has: its attributes by one of `ways`.

    Or a name that no shape has, now and then, or none at all where all have the same.
    """
    if random.random() < _ABSENT and "form" in ways:
        absent = [form for form in FORMS if all(s.form != form for s in scene)]
        return None, random.choice(absent)
    for _ in range(4):
        shape, way = random.choice(scene), random.choice(ways).split()
        names = [tuple(getattr(s, attribute) for attribute in way) for s in scene]
        mine = tuple(getattr(shape, attribute) for attribute in way)
        if names.count(mine) == 1:
            return shape, " ".join(mine)
    return None, ""


def _told(text: str, name: str, answer: str | None) -> Asked:
    """The question with its answer, or with the news that there is no such shape."""
    if not name:
        return None
    return text, _sentence(answer or f"there is no {name}")


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else "".join(parts)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _yes(truth: bool) -> str:
    return "Yes." if truth else "No."

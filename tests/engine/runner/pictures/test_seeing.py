"""Models that see, end to end: against float32 transformers, and one context against another."""

from collections.abc import Generator, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import Cancelled, CannotSee, ContextFull, TemplateError, UnknownPictures
from engine.images.plan import Limits, Size
from engine.protocol import ChatMessage, Generate, PictureLimits, PicturePart, Render
from engine.runner import load
from engine.runner import sequence as sequences
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.pictures.items import PictureRow
from engine.runner.pictures.viewer import Encoding, Viewer
from engine.runner.prompt import encoded as items_of_chat
from engine.runner.prompt import prompt_text
from engine.scheduler.plan import Planner
from tests.engine.runner.pictures.seeing import (
    answer,
    bring,
    items_of,
    logits,
    noise,
    one_layer,
    same_views,
    says,
    seeing,
    sequence_of,
    viewer_of,
)
from tests.engine.runner.test_context import keys
from tests.goldens.vision.families import PAIR, SINGLE
from tests.goldens.vision.store import load_cases
from tests.truth.compare import nmse

FILES = [(f, False) for f in PAIR] + [(f, True) for f in SINGLE if f != "mllama"]
"""Families and layouts; Llama 3.2 Vision has no rows among its tokens."""
TEXT_TEMPLATES = {
    "llava": (
        "{% for m in messages %}{{ m.role.upper() + ': ' + m.content + ' ' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
    ),
    "llava_next": "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endfor %}",
    "internvl": (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
}
"""What these families' own templates print, for contents that are texts."""
OPENCL = [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    """Gemma 3: 16 rows that see one another, and windows of 64 tokens."""
    with seeing(tmp_path, "gemma3") as model:
        yield model


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The views that towers have computed, one after the other."""
    views: list[int] = []
    real = Viewer.run

    def run(viewer: Viewer, ready: Any, *rest: Any) -> Generator[Encoding, None, np.ndarray]:
        views.append(ready.view)
        return real(viewer, ready, *rest)

    monkeypatch.setattr(Viewer, "run", run)
    return views


@pytest.mark.each_value
@pytest.mark.parametrize(("family", "is_single"), FILES)
def test_pictures_and_text_are_read_as_by_transformers(
    family: str, is_single: bool, tmp_path: Path
) -> None:
    """From the pictures' own pixels, through our resize, in one batch."""
    with seeing(tmp_path, family, is_single=is_single) as model:
        for case in load_cases(family).values():
            found = logits(sequence_of(model), items_of(model, case))
            if same_views(model, case):
                assert nmse(found, case.logits[-1]) < 1e-9, case.name
            else:  # torch rounds otherwise where it resizes, by one level of 255
                assert abs(found - case.logits[-1]).max() < 0.1, case.name


@pytest.mark.parametrize(
    "family", ["gemma3", "gemma4", "qwen2vl", "qwen3vl", "qwen35", "idefics3", "hunyuanvl"]
)
def test_in_small_batches_as_well(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 18 items at most, and where rows see one another of less."""
    monkeypatch.setattr(sequences, "MAX_BATCH", 18)
    with seeing(tmp_path, family) as model:
        case = load_cases(family)["two"]
        error = nmse(logits(sequence_of(model), items_of(model, case)), case.logits[-1])
        assert error < 1e-9


@pytest.mark.full_cases(r"\[pocl")
@pytest.mark.parametrize("family", ["gemma3", "qwen3vl", "qwen35"])
@pytest.mark.parametrize("device", OPENCL)
def test_on_devices(device: str, family: str, tmp_path: Path) -> None:
    with seeing(tmp_path, family, device) as model:
        case = load_cases(family)["two"]
        error = nmse(logits(sequence_of(model), items_of(model, case)), case.logits[-1])
        assert error < 1e-4


def test_the_same_picture_is_looked_at_once(model: Model, encoded: list[int]) -> None:
    sequence, a, b = sequence_of(model), bring(model, noise(1)), bring(model, noise(2))
    _, first = answer(model, sequence, [says(a, "what is it", a)])
    assert len(encoded) == 1
    chat = [says(a, "what is it", a), ChatMessage("assistant", "a"), says("and", b, "now", a)]
    _, second = answer(model, sequence, chat)
    assert len(encoded) == 2
    assert [p.encode_s > 0 for p in first.stats.pictures] == [True, False]
    assert [p.encode_s > 0 for p in second.stats.pictures] == [False, False, True, False]
    assert second.stats.n_image_rows == 4 * 16
    assert second.stats.n_cached > 2 * 16


@pytest.mark.parametrize("family", ["gemma3", "gemma4", "qwen2vl", "qwen35", "hunyuanvl"])
def test_an_edit_and_a_branch_are_answered_as_in_a_fresh_context(
    family: str, tmp_path: Path
) -> None:
    with seeing(tmp_path, family) as model:
        a, b = bring(model, noise(1)), bring(model, noise(2))
        first = [says(a, "what is it"), ChatMessage("assistant", "the"), says(b, "and that")]
        edited = [says(a, "what was it"), *first[1:]]
        other = [says(b, "what is it"), *first[1:]]
        branch = [*first[:2], says("why", a)]
        kept = sequence_of(model)
        reused = []
        for chat in (first, edited, branch, other, first):
            tokens, end = answer(model, kept, chat)
            reused.append((tokens, end.stats.n_cached))
        for (tokens, n_cached), chat in zip(
            reused[1:], (edited, branch, other, first), strict=True
        ):
            assert n_cached < 200
            assert n_cached or family == "qwen35"  # its states are kept at a few places alone
            assert answer(model, sequence_of(model), chat)[0] == tokens


def test_states_behind_a_picture_are_used_again(tmp_path: Path, encoded: list[int]) -> None:
    """Of delta nets, whose state at the end of a turn has seen the picture."""
    with seeing(tmp_path, "qwen35") as model:
        a = bring(model, noise(1))
        kept, chat = sequence_of(model), [says(a, "what is it")]
        tokens, _ = answer(model, kept, chat)
        said = model.loaded.tokenizer.decode(tokens)
        chat += [ChatMessage("assistant", said), says("and why")]
        again, end = answer(model, kept, chat)
        assert end.stats.n_cached > end.stats.n_image_rows > 0
        assert len(encoded) == 1
        assert answer(model, sequence_of(model), chat)[0] == again


def test_no_prefix_ends_inside_a_picture(model: Model) -> None:
    """Where all rows see each other, the first depends on what the last is."""
    sequence = sequence_of(model)
    case = load_cases("gemma3")["two"]
    items = items_of(model, case)
    logits(sequence, items)
    first = next(i for i, item in enumerate(items) if isinstance(item, PictureRow))
    for n in range(first, first + 17):
        kept = sequence.reuse([*items[:n], 5])
        assert kept == (n if n in (first, first + 16) else first)
        logits(sequence, items[kept:])


@pytest.mark.parametrize("family", ["gemma3", "gemma4e", "qwen2vl", "qwen3vl"])
def test_a_shift_takes_whole_pictures_and_turns_keys_to_their_new_places(
    family: str, tmp_path: Path
) -> None:
    """Keys of layer 0 depend on item and place alone: shifted ones equal those made there."""
    with seeing(tmp_path, family) as model:
        a, b = bring(model, noise(1, 90, 40)), bring(model, noise(2, 40, 90))
        sequence = sequence_of(model)
        answer(model, sequence, [says("look", a, "and then at", b, "what is it")], n=1)
        before = list(sequence.items)
        keep = 3
        n_ctx, count = sequence.n_ctx, len(before)
        room = (n_ctx - keep) // 2
        filler = [9] * (n_ctx - count)
        logits(sequence, filler)
        gone = sequence.shift(keep, lambda: False)
        assert len(gone) >= room - 1
        rows = [item for item in gone if isinstance(item, PictureRow)]
        assert {row.picture.digest for row in rows} == {a.digest, b.digest}
        left = list(sequence.items)
        assert left == [*before, *filler][:keep] + [*before, *filler][keep + len(gone) :]
        shifted = keys(model, 0)
        fresh = sequence_of(model)
        logits(fresh, left)
        made = keys(model, 0)
        assert ((shifted - made) ** 2).sum() <= 2e-6 * (made**2).sum()


@pytest.mark.parametrize("family", ["gemma3", "qwen2vl", "qwen3vl", "idefics3", "hunyuanvl"])
def test_after_a_shift_answers_are_those_of_a_fresh_context(
    family: str, tmp_path: Path, encoded: list[int]
) -> None:
    """With one layer; in deeper ones what stays has seen what is gone."""
    with one_layer(tmp_path, family) as model:
        a, b = bring(model, noise(1, 90, 40)), bring(model, noise(2, 40, 90))
        sequence = sequence_of(model)
        answer(model, sequence, [says("look", a, "and then at", b, "what is it")], n=1)
        looked = len(encoded)
        keep = next(
            i + 1
            for i, item in enumerate(sequence.items)
            if isinstance(item, PictureRow) and item.row == item.picture.n_rows - 1
        )
        logits(sequence, [9 + i % 50 for i in range(sequence.n_ctx - len(sequence.items))])
        gone = sequence.shift(keep, lambda: False)
        assert any(isinstance(item, PictureRow) for item in gone)
        left = list(sequence.items)
        assert any(isinstance(item, PictureRow) for item in left)
        shifted = [logits(sequence, [token]) for token in (7, 8, 9)]
        fresh = sequence_of(model)
        logits(fresh, left)
        for token, found in zip((7, 8, 9), shifted, strict=True):
            assert nmse(found, logits(fresh, [token])) < 1e-9
        assert len(encoded) == looked


def test_a_long_chat_leaves_out_whole_pictures_and_says_so(model: Model) -> None:
    a, b = bring(model, noise(1)), bring(model, noise(2))
    n_ctx = model.loaded.built.n_ctx
    chat = [says(a, "e" * (n_ctx - 100)), ChatMessage("assistant", "a"), says(b, "what" * 20)]
    tokens, end = answer(model, sequence_of(model), chat, n=2)
    assert end.stats.n_image_rows == 16
    assert end.stats.notes == ["picture 1 no longer fits the context and was dropped"]
    assert len(tokens) == 2


def test_a_picture_larger_than_the_context_is_refused_before_it_is_looked_at(
    tmp_path: Path, encoded: list[int]
) -> None:
    with seeing(tmp_path, "gemma3", ctx=12) as model:
        part = bring(model, noise(1))
        with pytest.raises(ContextFull, match="16 tokens do not fit.*picture of 60x45"):
            answer(model, sequence_of(model), [says(part)])
    assert encoded == []


def test_views_that_are_done_stay_when_it_is_cancelled(tmp_path: Path, encoded: list[int]) -> None:
    with seeing(tmp_path, "idefics3") as model:
        case = load_cases("idefics3")["wide"]
        items = items_of(model, case)
        stop = False
        sequence = sequence_of(model)
        steps = sequence.prefill(items, lambda: stop)
        while next(steps).done == 0:  # type: ignore[union-attr]
            pass
        stop = True
        with pytest.raises(Cancelled, match="picture"):
            next(steps)
        assert encoded == [0]
        assert sequence.items == []
        assert nmse(logits(sequence, items), case.logits[-1]) < 1e-9
        assert encoded == sorted(set(encoded))


def test_a_marker_that_somebody_typed_is_text(model: Model) -> None:
    a = bring(model, noise(1))
    _, plain = answer(model, sequence_of(model), [says(a, "what is it")], n=1)
    _, typed = answer(model, sequence_of(model), [says(a, "what <start_of_image> is it")], n=1)
    assert typed.stats.n_image_rows == plain.stats.n_image_rows == 16
    marker = model.loaded.tokenizer.id("<start_of_image>")
    sequence = sequence_of(model)
    answer(model, sequence, [says(a, "what <start_of_image> is it")], n=1)
    assert [i for i in sequence.items if i == marker] == [marker]


def test_where_a_template_drops_a_picture_it_is_said(model: Model) -> None:
    model.loaded.template.text = "{{ messages[-1].content if messages[-1].content is string }}"
    chat = [says(bring(model, noise(1)), "?"), ChatMessage("assistant", "so")]
    with pytest.raises(TemplateError, match="prints 0 pictures of 1"):
        answer(model, sequence_of(model), chat)


def test_a_template_that_knows_no_pictures_gets_them_as_text(model: Model) -> None:
    model.loaded.template.text = (
        "{% for m in messages %}<start_of_turn>{{ m.role + '\\n' + m.content }}<end_of_turn>"
        "{% endfor %}"
    )
    sequence = sequence_of(model)
    a = bring(model, noise(1))
    _, end = answer(model, sequence, [says("see ", a, " there")], n=1)
    assert end.stats.n_image_rows == 16
    text = model.loaded.tokenizer.decode([i for i in sequence.items if isinstance(i, int)], True)
    assert "see \n\n<start_of_image><end_of_image>\n\n there" in text


@pytest.mark.parametrize("family", TEXT_TEMPLATES)
def test_a_template_of_texts_makes_the_items_that_one_of_parts_does(
    family: str, tmp_path: Path
) -> None:
    """With what the family has behind a picture, which such a template does not print."""
    found = []
    for text in ("", TEXT_TEMPLATES[family]):
        with seeing(tmp_path, family) as model:
            loaded, viewer = model.loaded, viewer_of(model)
            loaded.template.text = text or loaded.template.text
            a, b = bring(model, noise(1)), bring(model, noise(2))
            assert bool(viewer.marking.printed) != bool(text)
            chat = [says(a, b, "what is it")]
            found.append(
                items_of_chat(loaded.tokenizer, loaded.template, Render(1, chat), viewer)[0]
            )
    assert found[0] == found[1]


def test_questions_may_be_parts_and_answers_texts(tmp_path: Path) -> None:
    """LLaVA 1.6's template takes each role in a form of its own."""
    with seeing(tmp_path, "llava_next") as model:
        loaded = model.loaded
        question = says(bring(model, noise(1)), "what is it")
        chat = [question, ChatMessage("assistant", "a red hat"), ChatMessage("user", "and that")]
        items, _ = items_of_chat(
            loaded.tokenizer, loaded.template, Render(1, chat), viewer_of(model)
        )
        text = loaded.tokenizer.decode([i for i in items if isinstance(i, int)], True)
        assert "what is it [/INST] a red hat</s>[INST] and that [/INST]" in text


@pytest.mark.parametrize("family", ["llava", "llava_next", "idefics3", "gemma3"])
def test_a_chat_without_pictures_says_what_was_typed(family: str, tmp_path: Path) -> None:
    """Templates that go through parts print nothing of a text."""
    with seeing(tmp_path, family) as model:
        chat = [ChatMessage("user", "e"), ChatMessage("assistant", "so"), ChatMessage("user", "x!")]
        text = prompt_text(model.loaded.template, Render(1, chat))
        assert [text.count(said) for said in ("so", "x!")] == [1, 1]
        without = prompt_text(
            model.loaded.template, Render(1, [ChatMessage("user", ""), *chat[1:]])
        )
        assert text.count("e") == without.count("e") + 1


def test_what_is_not_held_or_cannot_be_seen_is_named(model: Model, tmp_path: Path) -> None:
    with pytest.raises(UnknownPictures, match="0123456789ab") as refused:
        answer(model, sequence_of(model), [says(PicturePart("0123456789abcdef"), "?")])
    assert refused.value.digests == ("0123456789abcdef",)
    with load(tmp_path / "gemma3.gguf", device="host", mmproj="none", ctx=64) as blind:
        assert blind.loaded.viewer is None
        request = Generate(1, messages=[says(PicturePart("0"), "?")])
        with pytest.raises(CannotSee, match="--mmproj"):
            generate(blind.loaded, sequence_of(blind), request, lambda: False)


def test_a_picture_may_be_limited_by_itself(tmp_path: Path) -> None:
    with seeing(tmp_path, "idefics3") as model:
        part = bring(model, noise(1, 90, 30))
        one = PicturePart(part.digest, PictureLimits(one_view=True))
        _, whole = answer(model, sequence_of(model), [says(part, "?")], n=1)
        _, alone = answer(model, sequence_of(model), [says(one, "?")], n=1)
        assert len(alone.stats.pictures[0].views) == 1 < len(whole.stats.pictures[0].views)


def test_the_speed_of_the_tower_is_learned_without_what_was_built_for_it(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, plan_with = 2.0, Planner.plan_with

    def slow(planner: Planner, key: tuple[object, ...], *rest: Any) -> Any:
        sleep(built if key[0] == "tower" else 0)
        return plan_with(planner, key, *rest)

    monkeypatch.setattr(Planner, "plan_with", slow)
    viewer = viewer_of(model)
    _, end = answer(model, sequence_of(model), [says("what", bring(model, noise(5)))], n=1)
    assert viewer.per_patch is not None
    (looked,) = end.stats.pictures
    patches = viewer.patches(viewer.plan(Size(60, 45), Limits()))
    assert 0 < viewer.per_patch * patches <= looked.encode_s - built

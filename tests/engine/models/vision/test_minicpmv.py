"""What MiniCPM-V alone does: marks of each version, numbers of pictures, rows of queries."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.images.plan import ImagePlan, Limits, Size, Text
from engine.models.vision.build import build_tower
from engine.runner import load
from engine.runner.pictures.items import tokens_of
from tests.engine.models.vision.running import host_of
from tests.engine.models.vision.test_whole_way import prompt_of
from tests.goldens.vision.families import write_pair
from tests.goldens.vision.files import minicpmv
from tests.goldens.vision.store import load_cases, load_state

MANY = Size(126, 98)


def planned(
    folder: Path, version: int, size: Size = MANY, has_numbers: bool = True, rows: int | None = None
) -> ImagePlan:
    """The plan by a file of that version; the text's vocabulary may have no numbers of pictures."""
    made = minicpmv.mmproj(load_state("minicpmv"))
    keys = {**made.metadata, "clip.minicpmv_version": version}
    path = replace(made, metadata=keys).write(folder / "mmproj.gguf")
    host = host_of("qwen2", minicpmv.TEXT.embedding)
    host = replace(host, has_token=lambda token: has_numbers or "image_id" not in token)
    with open_gguf(path) as file:
        return build_tower(file, host).tower.plan(size, Limits(rows))


def shown(plan: ImagePlan) -> str:
    return "".join(piece.text if isinstance(piece, Text) else "*" for piece in plan.pieces)


@pytest.mark.parametrize("version", [3, 4, 5, 6, 100045])
def test_slices_have_marks_of_their_own(version: int, tmp_path: Path) -> None:
    line = "<slice>*</slice><slice>*</slice>"
    plan = planned(tmp_path, version)
    assert shown(plan) == f"<image>*</image>{line}\n{line}"
    assert plan.counted.format(7) == "<image_id>7</image_id>"
    assert plan.rows == 5 * minicpmv.QUERIES


def test_2_5_wraps_slices_and_has_no_numbers(tmp_path: Path) -> None:
    plan = planned(tmp_path, 2, has_numbers=False)
    line = "<image>*</image>" * 2
    assert shown(plan) == f"<image>*</image><slice>{line}\n{line}</slice>"
    assert plan.counted == ""


def test_fewer_slices_keep_to_a_limit_of_rows(tmp_path: Path) -> None:
    plan = planned(tmp_path, 3, rows=3 * minicpmv.QUERIES)
    assert (plan.rows, len(plan.views)) == (3 * minicpmv.QUERIES, 3)
    assert shown(planned(tmp_path, 3, rows=1)) == "<image>*</image>"


def test_the_tower_of_2_0_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="minicpmv_version is 1: the tower of MiniCPM-V 2.0 is"):
        planned(tmp_path, 1)


def test_templates_that_take_texts_alone_get_a_line_for_each_picture(tmp_path: Path) -> None:
    """As published files have it: the same prompt as by a template that prints the marker."""
    state = load_state("minicpmv")
    text, mmproj = minicpmv.text(state), write_pair(tmp_path, "minicpmv")[1]
    start, end = "<|im_start|>", "<|im_end|>"
    template = (
        "{% for m in messages %}"
        + start
        + "{{ m['role'] + '\\n' + m['content'] + '"
        + end
        + "\\n' }}{% endfor %}{% if add_generation_prompt %}"
        + start
        + "assistant\n{% endif %}"
    )
    keys = {**text.metadata, "tokenizer.chat_template": template}
    path = replace(text, metadata=keys).write(tmp_path / "plain.gguf")
    case = load_cases("minicpmv")["many"]
    with load(path, device="host", ctx=512, kv="f32", mmproj=str(mmproj)) as model:
        assert tokens_of(prompt_of(model, case).items) == case.ids.tolist()

"""What the line proves once is proven again elsewhere by `pytest -m full`: on further drivers, with
real models where a tiny one does, in another way of the same kind.

Of a kernel's cases each runs on the first driver, and by turns every twentieth on each other one.
"""

import re
from zlib import crc32

import pytest

EVERY = 20
AGAIN = re.compile(
    "|".join(
        (
            r"test_screen.py::test_on_a_screen\[demo\]",  # first_question runs there
            # By keys in test_screen.py; clicks in the window's tests.
            r"test_first_question.py::test_by_(mouse|keyboard)_alone",
            r"test_models.py::test_logits_are_float32_transformers\[intel:0-gemma3-short\]",
            r"test_selftest_table.py::test_short_table\[pocl",
            r"test_recipe.py::test_a_new_operation\[pocl",
            r"test_formats.py::test_logits_are_the_hosts\[pocl",
            r"test_spread.py::test_tiny_models_.*\[(gemma3|mistral3)\]",
            r"test_kv.py::test_how_well_a_real_text_is_predicted",
            r"test_exam.py::test_it_is_right_about_pictures_it_never_met\[pocl",
            r"test_tune.py::test_(for_people|progress_is_shown)",
            r"commands/test_selftest.py::test_(speeds|progress_is_shown)",
            r"test_soak.py::test_everything_is_told",
            r"test_run.py::TestSmolLM2::test_(the_context_shifts|stdin|json_with_logprobs"
            r"|a_stop_string_over_tokens_is_never_shown|paris_from_a_cache_of_blocks)",
            r"tokenizer/test_chat.py::test_bad_templates_.*1\.2 s",
            r"test_bench.py::test_a_picture$",
            r"commands/test_selftest.py::test_a_case_that_never_ends",  # waits ten seconds
            r"test_plan.py::test_seventy_billion_parameters_with_an_eye",
            r"test_models.py::test_logits_are_float32_transformers\[pocl:0-gemma3-short\]",
            r"test_models.py::test_logits_are_float32_transformers\[host-smollm2-short\]",
            r"inside/test_compare.py::test_in_real_models",
            r"views/test_report.py::test_a_real_device",
            r"test_vectors.py::test_every_program_builds\[pocl",
            r"answering/test_(batcher|random|together).py::.*\[gemma3",
            r"placing/test_move.py::.*\[gemma3",
            r"vision/test_cross.py::test_logits_on_devices\[pocl",
            r"pictures/test_seeing.py::test_on_devices\[pocl",
            r"test_long_chat.py::test_every_plan_of_a_chat_fits\[(pocl|intel:0\+)",
            r"test_selftest_table.py::test_short_table",
            r"commands/test_compare.py::test_two_devices_one_after_the_other",
            r"commands/test_tune.py::test_a_family_is_tuned_beside_others",
            r"test_bench.py::test_nothing_is_left_of_a_bench_that_ends_early\[9\]",
            r"token/test_attention.py::test_real_models\[gemma3",
            r"test_fluid.py::test_20000_tokens_and_an_answer_of_200_a_second\[False\]",
            r"test_exam.py::test_it_is_right_on_the_host",  # on a device, with other pictures too
            r"test_reader.py::test_agrees_on_smollm2",  # on a written file with all kinds of values
            # All formats are packed by test_pack.py and multiplied by test_matmul.py.
            r"test_formats.py::test_logits_are_the_hosts\[intel:0-(IQ[123]|Q[235]|NV|TQ1|IQ4_NL)",
            # At the largest text; window/test_legible.py has these views at all sizes.
            r"(plots|profile)/test_(plots|heat_map|profile)\.py::test_legible.*\[(0\.75|1\.0)",
            # Kernels run on each driver by turns; rows of towers and the exam there too.
            r"vision/test_(goldens|whole_way).py::test_(rows_of_q8_0_)?on_devices.*\[pocl",
            r"test_vectors.py::test_code_has_registers_of_that_width\[(sse|auto)-.-pocl",
            r"state/test_session.py::test_another_model_in_mid_answer",  # end_to_end/test_talk.py
            # A real model's death: end_to_end/test_talk.py and test_client.py.
            r"state/test_session.py::test_load_answer_die_and_come_back",
            # Another driver sees with one family here; kernels run there by turns, and cells of
            # f16 and of blocks of four bits.
            r"pictures/test_blocks.py::test_rows_are_the_same_.*\[pocl:0-(?!pixtral)",
            r"vision/test_goldens.py::test_rows_on_devices\[pocl:0-(?!llava\])",
            r"runner/test_kv.py::.*\[(f32|q8_0)-pocl",
            # A whole answer on a device: those of two devices; towers of f16: test_rows_on_devices.
            r"vision/test_whole_way.py::test_on_devices_with_a_tower_of_f16\[.*-(?!gemma3\])",
            # States and attention in turn: qwen35 and falcon_h1 have both.
            r"answering/test_batcher.py::test_(shifts_and_cancels|sixteen).*\[mamba2",
            # Each failure at one of two with attention between states, all at the small one.
            r"test_architectures.py::test_each_transfer_.*\[(qwen35-(compile|read)|falcon_h1-(wait|start))",
            r"placing/test_placement.py::test_every_allocation_of_a_load.*\[gemma3",  # test_memory
            # One answer at a time is test_placement's and test_memory's; four are more than one.
            r"answering/test_embed.py::test_room_for_many.*\[(mllama|gemma3)-1",
            # Steps of one size unfused, and few tokens without fused attention: other cases' lives.
            r"scheduler/test_peak.py::.*\[.*-(96|4)-\d-.*(unfused|no flash)",
        )
    )
)


def mark_again(items: list[pytest.Item]) -> None:
    """Mark them `full`, before markers are looked at."""
    for item in items:
        if AGAIN.search(item.nodeid) or _on_another_driver(item):
            item.add_marker(pytest.mark.full)


def _on_another_driver(item: pytest.Item) -> bool:
    if item.get_closest_marker("other_driver") is None:
        return False
    return bool(crc32(item.nodeid.encode()) % EVERY)

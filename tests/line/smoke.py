"""`pytest -m smoke`: a little of each area within a minute, without a model file or second driver.

A folder, a file or a test of the list is marked here; a test may carry the mark itself as well.
"""

import pytest

SMOKE = (
    # What a file holds
    "tests/engine/gguf/test_byteorder.py",
    "tests/engine/gguf/test_formats.py",
    "tests/engine/gguf/test_metadata.py",
    "tests/engine/gguf/test_reader.py",
    "tests/engine/gguf/test_summary.py",
    "tests/engine/gguf/test_hostile.py::test_hand_made_headers",
    "tests/engine/gguf/test_hostile.py::test_impossible_tensors",
    # Its words
    "tests/engine/tokenizer/test_merge.py",
    "tests/engine/tokenizer/test_patterns.py",
    "tests/engine/tokenizer/test_special.py",
    "tests/engine/tokenizer/test_strings.py",
    "tests/engine/tokenizer/test_chat.py::test_templates_render",
    "tests/engine/answers/test_reader.py::test_whole",
    # Graphs, and the plans that run them
    "tests/engine/graph",
    "tests/engine/images/test_layouts.py::test_published_sizes",
    "tests/engine/kvcache",
    "tests/engine/layers",
    "tests/engine/memory",
    "tests/engine/models/test_build.py",
    "tests/engine/models/test_hostile.py::test_all_that_is_out_of_range_comes_in_one_error",
    "tests/engine/models/test_hostile.py::test_a_constant_has_a_range_too",
    "tests/engine/models/test_kept.py",
    "tests/engine/models/test_new_architecture.py",
    "tests/engine/models/vision/test_gemma3.py",
    "tests/engine/scheduler/test_assign.py",
    "tests/engine/scheduler/test_plan.py",
    "tests/engine/scheduler/test_split.py",
    # Operations: the reference, and one OpenCL driver
    "tests/engine/backends/host",
    "tests/engine/backends/opencl/lowering",
    "tests/kernels/test_fuse.py::test_activation_quantize",
    "tests/kernels/test_layouts.py",
    "tests/kernels/test_matmul.py::test_zeros_make_zeros",
    "tests/kernels/test_matmul.py::test_activations_of_any_size",
    "tests/kernels/test_norm.py",
    "tests/kernels/test_rope.py",
    # Answers of a tiny model, here and in a process of their own
    "tests/engine/sampling/test_stops.py",
    "tests/engine/inside/token/test_scratch.py::test_the_conversation_stays_to_the_bit",
    "tests/engine/runner/test_context.py::test_or_ends_as_set",
    "tests/engine/runner/test_generate.py",
    "tests/engine/test_worker.py::test_models_come_and_go",
    "tests/engine/test_worker.py::test_cancel_while_answering",
    # The window's state, and the window
    "tests/app/state/talk/disk/test_exchange.py",
    "tests/app/state/talk/disk/test_store.py",
    "tests/app/state/talk/test_tree.py",
    "tests/app/state/test_preferences.py",
    "tests/app/theme",
    "tests/app/views/talk/test_composer.py",
    "tests/app/views/talk/test_selecting_text.py",
    "tests/app/window/panes/test_vitals.py",
    "tests/app/window/test_window.py::test_the_palette_finds_and_runs",
    "tests/app/widgets/lists",
    "tests/app/widgets/markdown/test_laid.py",
    "tests/app/widgets/markdown/test_parse.py",
    "tests/app/widgets/plots/test_plots.py",
    "tests/app/widgets/test_basics.py",
    # The command line
    "tests/app/test_cli.py::test_version_without_anything_heavy",
    "tests/app/test_cli.py::test_help_lists_every_command_and_setting",
    "tests/app/commands/test_run.py::test_equal_seeds_answer_equally",
    # The tree
    "tests/test_tree.py",
)
NOT_SMOKE = ("model_file", "full", "alone", "other_driver")


def mark_smoke(items: list[pytest.Item]) -> None:
    """Marks what the list names, and takes the mark from what the tier does without."""
    for item in items:
        named = item.nodeid.startswith(SMOKE)
        if not named and item.get_closest_marker("smoke") is None:
            continue
        if any(item.get_closest_marker(name) for name in NOT_SMOKE):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "smoke"]
        elif named:
            item.add_marker("smoke")

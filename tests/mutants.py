"""Whether tests still catch faults: small ones are put into a copy of the tree, one at a time.

    python -m tests.mutants [WORD ...] [--list]

Each mutant names the narrow part of the quick run that is to fail; a word chooses those whose
`what` has it. Exit status 1 where one survives.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.engine.models.text.encoders import ENCODERS
from tests.engine.models.text.rankers import RANKERS
from tests.engine.models.text.rows import ROWS
from tests.program import ROOT

COPIED = ("app", "engine", "kernels_cl", "resources", "tests", "pyproject.toml", "README.md")


class Mutant(NamedTuple):
    """`old`, which the file has once, becomes `new`; `tests` are to fail."""

    what: str
    file: str
    old: str
    new: str
    tests: str


OTHERS = (
    Mutant(
        "a draft after a change begins one token late",
        "engine/runner/drafting/rewritten.py",
        "if token in near else place + 1",
        "if token in near else place + 2",
        "tests/engine/runner/drafting/test_rewritten.py",
    ),
    Mutant(
        "a file takes another's name before it is on the disk",
        "engine/kept.py",
        "            os.fsync(file.fileno())\n",
        "",
        "tests/failing/test_sweep.py::test_drawn[settings-theme]",
    ),
    Mutant(
        "preferences that could not be saved are not mentioned",
        "app/state/preferences.py",
        'self.notice = tr(\n                "preferences are not saved',
        '_ = tr(\n                "preferences are not saved',
        "tests/failing/test_sweep.py::test_drawn[settings-theme]",
    ),
    Mutant(
        "a downloaded file is believed without its checksum",
        "app/fetch/transfer.py",
        "return source.sha256 is None or part.digest.hexdigest() == source.sha256.lower()",
        "return True",
        "tests/app/fetch/test_hub.py::test_lying_hash",
    ),
    Mutant(
        "a cache is believed without its checksum",
        "engine/kept.py",
        "whole[: len(magic) + DIGEST] == magic + sha256(content).digest() else None",
        "whole[: len(magic)] == magic else None",
        "tests/app/test_library.py::test_one_bit_of_the_cache_of_headers",
    ),
    Mutant(
        "a changed bit in a chat is believed",
        "app/checks/row_sums.py",
        '        total = crc32(value or b"", total)\n',
        "",
        "tests/app/state/talk/disk/test_row_sums.py::test_a_bit_of_a_text_is_restored",
    ),
    Mutant(
        "an edited question is stored without its answer, and twice when it is sent again",
        "app/state/talk/chat.py",
        "            with self._thread.together():\n                question = self._thread.add(",
        "            if True:\n                question = self._thread.add(",
        "tests/failing/test_sweep.py::test_drawn[chat-edit]",
    ),
    Mutant(
        "a download that failed keeps its lock",
        "app/fetch/job.py",
        "            lock.release()",
        "            self.parts.append(lock)",
        "tests/failing/test_sweep.py::test_drawn[fetch]",
    ),
    Mutant(
        "the window writes a file that no table knows",
        "app/state/preferences.py",
        "        others = [other for other in self.value.recent if other != path]\n",
        "        others = [other for other in self.value.recent if other != path]\n"
        '        write_atomically(self.path.with_name("recent.json"), b"[]")\n',
        "tests/damage/test_table.py::test_all_that_is_written_has_a_row",
    ),
    Mutant(
        "a state of the window keeps a file of which no table has an owner",
        "app/state/presets.py",
        "        structs.replace(Sampling(), **self.values).check()\n",
        "        structs.replace(Sampling(), **self.values).check()\n"
        '        write_atomically(Path("presets.json"), b"[]")\n',
        "tests/app/commands/test_repair.py::test_a_module_that_writes_a_file_owns_a_kind",
    ),
    Mutant(
        "tokens move to another learned position",
        "engine/kvcache/causal.py",
        "if not self.movable and later.any():",
        "if False:",
        "tests/engine/models/text/test_positions.py",
    ),
    Mutant(
        "of several experts that are fed by weight the first alone counts",
        "engine/layers/experts.py",
        "reduce(ops.add, parts)",
        "next(parts)",
        "tests/engine/models/text/test_rows.py::test_on_the_host[llama4-scaled]",
    ),
    Mutant(
        "a range without an end yields to layers that were named before it",
        "engine/memory/placement.py",
        "layers = {i: name for i, name in layers.items() if i < first}",
        "pass",
        "tests/engine/memory/test_placement.py",
    ),
    Mutant(
        "kernel: rows that the last tile lacks are left as they were",
        "kernels_cl/pack.cl",
        "        clear_row(out +",
        "        if (0) clear_row(out +",
        "tests/kernels/test_pack.py",
    ),
    Mutant(
        "weights of a file that was written since are taken over",
        "engine/gguf/splits.py",
        "status.st_dev, status.st_ino, status.st_size, *times",
        "0, 0, 0, 0, 0",
        "tests/engine/runner/placing/test_shelf.py",
    ),
    Mutant(
        "kernel: RMS norm without its epsilon",
        "kernels_cl/norm.cl",
        "find_rms_norm factor = 1.0f / sqrt(SQUARES(0.0f) / n0 + eps);",
        "find_rms_norm factor = 1.0f / sqrt(SQUARES(0.0f) / n0);",
        "tests/kernels/test_norm.py",
    ),
    Mutant(
        "kernel: the last elements of a rotation turn the other way",
        "kernels_cl/rope.cl",
        "        out[i] = a * cosines[i] - b * sines[i];",
        "        out[i] = a * cosines[i] + b * sines[i];",
        "tests/kernels/test_rope.py",
    ),
    Mutant(
        "kernel: activations in 8 bits where 12 are promised",
        "kernels_cl/parts/common.cl",
        "#define Q_MOST 2047.0f",
        "#define Q_MOST 127.0f",
        "tests/kernels/test_matmul.py::test_activations_of_any_size",
    ),
    Mutant(
        "kernel: scores of queries in lanes fall by slopes of another base",
        "kernels_cl/attention_tiles.cl",
        "slope_of_query(a, query) * LOG2_E",
        "slope_of_query(a, query)",
        "tests/kernels/test_attention.py",
    ),
    Mutant(
        "kernel: attention sees one cell before its window",
        "kernels_cl/parts/common.cl",
        "positions >= span.y &&",
        "positions >= span.y - 1 &&",
        "tests/kernels/test_attention.py",
    ),
    Mutant(
        "kernel: a block of cells mixes pages of several sequences",
        "kernels_cl/parts/attention_cells.cl",
        "    if (page.w && n && page.x != block->all.x) break;\n",
        "",
        "tests/kernels/test_attention_sequences.py",
    ),
    Mutant(
        "kernel: a recurrence steps over padding",
        "kernels_cl/recurrence_vectors.cl",
        "    if (t < all.end) {",
        "    if (t < all.padded) {",
        "tests/kernels/test_recurrent.py",
    ),
    Mutant(
        "fusion: a new state leaves for its slot though somebody reads it",
        "engine/backends/opencl/lowering/rewrite.py",
        "t.offset + t.nbytes > offset for t in read)",
        "False for t in read)",
        "tests/kernels/test_recurrent.py",
    ),
    Mutant(
        "T5: the decoder's distances have buckets on both sides",
        "engine/layers/step.py",
        "n_buckets, cache is None)",
        "n_buckets, True)",
        "tests/engine/models/text/test_t5.py",
    ),
    Mutant(
        "pictures: each is the first one for places that count them",
        "engine/runner/pictures/items.py",
        "    number = sum(run.is_last for run in runs(before))",
        "    number = 0",
        "tests/engine/runner/pictures tests/engine/models/vision/test_hunyuanvl.py",
    ),
    Mutant(
        "tokenizer: of PLaMo's paths that cost the same the shorter token is taken",
        "engine/tokenizer/cheapest.py",
        "sums[at + size] + cost <= least",
        "sums[at + size] + cost < least",
        "tests/engine/tokenizer/test_llama_cpp.py",
    ),
    Mutant(
        "graph: a node with other sources keeps the arguments that it was made with",
        "engine/graph/graph.py",
        "replace(tensor, src=src, arguments=None)",
        "replace(tensor, src=src)",
        "tests/engine/models/test_adapters.py",
    ),
    Mutant(
        "scheduler: a storage ends one step early in the arena's bound",
        "engine/scheduler/allocate.py",
        "changes[life.last + 1] -= life.size",
        "changes[life.last] -= life.size",
        "tests/engine/scheduler/test_allocate.py",
    ),
    Mutant(
        "scheduler: a copy of what was written since is not made again",
        "engine/scheduler/split.py",
        "self._there.get((storage, backend)) != made",
        "(storage, backend) not in self._there",
        "tests/engine/scheduler/test_split.py tests/engine/scheduler/test_faults.py "
        "tests/engine/scheduler/test_plan.py",
    ),
    Mutant(
        "cache: a window of one token more",
        "engine/kvcache/causal.py",
        "first = np.maximum(first, positions - self.window + 1)",
        "first = np.maximum(first, positions - self.window)",
        "tests/engine/kvcache",
    ),
    Mutant(
        "states: a step writes over the state that it reads",
        "engine/kvcache/states.py",
        "if slot not in present and slot not in taken]",
        "if slot not in {*present} - {self._latest(0)} and slot not in taken]",
        "tests/engine/kvcache/test_states.py",
    ),
    Mutant(
        "states: going back leaves those that have read further",
        "engine/kvcache/states.py",
        "self.bits[self.read > begin] &=",
        "self.bits[self.read > begin + 99] &=",
        "tests/engine/kvcache/test_states.py",
    ),
    Mutant(
        "states: padding is stepped over",
        "engine/kvcache/states.py",
        "np.cumsum([step.part.count for",
        "np.cumsum([step.part.count + 1 for",
        "tests/engine/runner/states/test_chats.py",
    ),
    Mutant(
        "states: none is kept where the next question parts",
        "engine/runner/sequence.py",
        "if len(self.items) == self.turn or not",
        "if not",
        "tests/engine/runner/states/test_chats.py",
    ),
    Mutant(
        "states: an edit goes on from a state that has read what was edited",
        "engine/kvcache/states.py",
        "& (self.read <= n)]",
        "& (self.read <= n + 16)]",
        "tests/engine/runner/states/test_chats.py",
    ),
    Mutant(
        "cache: a shift turns keys the wrong way",
        "engine/kvcache/causal.py",
        "np.where(later, begin - end, 0)",
        "np.where(later, end - begin, 0)",
        "tests/engine/kvcache",
    ),
    Mutant(
        "placement: layers leave a short device before the vision tower does",
        "engine/runner/placing/placement.py",
        "if _rank(found) > _rank(best[1]):",
        "if False:",
        "tests/engine/runner/pictures/test_memory.py",
    ),
    Mutant(
        "placement: two libraries with as many layers, and the later one wins",
        "engine/memory/fit.py",
        "if found.total > best.total:",
        "if found.total >= best.total:",
        "tests/engine/memory/test_fit.py",
    ),
    Mutant(
        "tokenizer: pairs of pieces that were joined meanwhile are joined again",
        "engine/tokenizer/merge.py",
        "if self._orders[i] == order:",
        "if self._orders[i] != _NEVER:",
        "tests/engine/tokenizer/test_merge.py",
    ),
    Mutant(
        "tokenizer: text right before a special token is lost",
        "engine/tokenizer/special.py",
        "if before > end:",
        "if before > end + 1:",
        "tests/engine/tokenizer/test_special.py",
    ),
    Mutant(
        "file: tensors that overlap are taken",
        "engine/gguf/tensors.py",
        "if tensor.offset + tensor.nbytes > following.offset:",
        "if tensor.offset > following.offset:",
        "tests/engine/gguf/test_hostile.py",
    ),
    Mutant(
        "forms: the mask of a token is that of the one before",
        "engine/sampling/constraint.py",
        "_in_words(self._matcher.get_error()))\n        self._is_ready = False",
        "_in_words(self._matcher.get_error()))",
        "tests/engine/runner/forms/test_forms.py",
    ),
    Mutant(
        "calls: a mark within an argument ends the call",
        "engine/answers/reader.py",
        "self._scan = max(self._scan, self._followed())",
        "self._followed()",
        "tests/engine/answers/test_reader.py",
    ),
    Mutant(
        "sampling: the last token of top-p is looked for as if no bin came before its own",
        "engine/sampling/cuts.py",
        "before = float(sums[last - 1]) if last else 0.0",
        "before = 0.0",
        "tests/engine/sampling/test_quick.py",
    ),
    Mutant(
        "sampling: top-p takes one token too many at its border",
        "engine/sampling/cuts.py",
        'np.searchsorted(total, p, "left")',
        'np.searchsorted(total, p, "right")',
        "tests/engine/sampling",
    ),
    Mutant(
        "prompt: one too long loses the kept part",
        "engine/runner/prompt.py",
        "left = items[:begin] + items[end:]",
        "left = items[end - begin :]",
        "tests/engine/runner/test_context.py",
    ),
    Mutant(
        "state: the last sibling is shown after one was removed, not the one beside it",
        "app/state/talk/tree.py",
        "self._chosen[message.parent] = following.id",
        "self._chosen[message.parent] = self._children[message.parent][-1]",
        "tests/app/state/talk",
    ),
    Mutant(
        "view: the least likely token on top of the card",
        "app/views/talk/probabilities.py",
        "top = sorted(info.top, key=lambda alternative: -alternative.logprob)",
        "top = sorted(info.top, key=lambda alternative: alternative.logprob)",
        "tests/app/views/talk/test_probabilities.py",
    ),
    Mutant(
        "view: a bar that stays at a tenth",
        "app/window/panes/vitals.py",
        "round(1000 * stage.done / stage.total)",
        "round(100 * stage.done / stage.total)",
        "tests/app/window/panes/test_vitals.py",
    ),
    Mutant(
        "a document writes marks of the form that rerankers read it in",
        "engine/tokenizer/tokenizer.py",
        "ids += self.encode(filled, add_special=False, parse_special=False)",
        "ids += self.encode(filled, add_special=False)",
        "tests/engine/test_rank.py",
    ),
    Mutant(
        "a head chooses between tokens without softmax",
        "engine/models/head.py",
        "chooses=arch in CHOOSING and count > 1",
        "chooses=False",
        "tests/engine/models/text/test_rankers.py",
    ),
    Mutant(
        "memory is freed while threads take its pages",
        "engine/backends/opencl/pages.py",
        "        wait(self._coming)\n",
        "        wait([*self._coming][:1])\n",
        "tests/engine/runner/placing/test_failing_load.py::test_a_cancel_leaves_nothing",
    ),
    Mutant(
        "an adapter's product is not divided by its rank",
        "engine/models/adapters.py",
        "alpha / rank if alpha",
        "alpha if alpha",
        "tests/engine/models/test_adapters.py::test_embeddings_alpha_and_several",
    ),
    Mutant(
        "an adapter's scale of one sequence is that of all in the step",
        "engine/runner/stepper.py",
        "            own = self.scales if part.edits.scales is None else part.edits.scales\n",
        "            own = self.scales\n",
        "tests/engine/runner/test_adapters.py::test_a_sequence_goes_on_only_with_its_own_scales",
    ),
    Mutant(
        "cells that were computed with other scales of adapters are gone on from",
        "engine/runner/edits.py",
        "    if edits.scales != other.scales:\n        return 0\n",
        "",
        "tests/engine/runner/test_adapters.py::test_a_sequence_goes_on_only_with_its_own_scales",
    ),
    Mutant(
        "prefixes on the disk are of any adapter",
        "engine/runner/prefixes/rows.py",
        "if active else facts",
        "if not facts else facts",
        "tests/engine/runner/test_adapters.py::test_what_is_on_the_disk_is_of_its_scales",
    ),
    Mutant(
        "what an adapter adds is multiplied by the scale of four-bit floats",
        "engine/models/adapters.py",
        "rewrites[scaled.get(node, node)]",
        "rewrites[node]",
        "tests/engine/models/test_adapters.py::test_matrices_with_scales_of_their_own[qwen35]",
    ),
    Mutant(
        "a pattern of places does not count for an adapter of the matrix",
        "engine/memory/placement.py",
        'name.partition(".lora_")[0]',
        "name",
        "tests/engine/runner/test_adapters.py::test_they_lie_with_their_matrices",
    ),
    Mutant(
        "scaling adapters leaves what was read before",
        "engine/worker/handlers.py",
        "        for sequence in sequences:\n            sequence.clear()\n",
        "",
        "tests/engine/runner/test_adapters.py::test_the_worker_scales_them_without_loading",
    ),
)

ROW_TEST = "tests/engine/models/text/test_rows.py::test_on_the_host[{}]"
ENCODER_TEST = "tests/engine/models/text/test_encoders.py::test_on_the_host[{}]"
RANKER_TEST = "tests/engine/models/text/test_rankers.py::test_on_the_host[{}]"
OF_ROWS = tuple(
    Mutant(f"architecture: {row.name}", *row.fault, tests=test.format(row.name))
    for rows, test in ((ROWS.values(), ROW_TEST), (ENCODERS, ENCODER_TEST), (RANKERS, RANKER_TEST))
    for row in rows
)
MUTANTS = (*OTHERS, *OF_ROWS)


def copied(folder: Path) -> Path:
    """The tree as it stands, without what was built."""
    ignore = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    return folder


def failing(tree: Path, tests: str) -> str:
    """The first test that fails there, "" where all pass; raises where they could not be run."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not full and not model_file"]
    words += ["-p", "no:cacheprovider", "-p", "no:randomly", *tests.split()]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        words, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    if ended.returncode != 1 or failed is None:
        raise SystemExit(f"{tests}: no run\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return failed[1]


def caught(tree: Path, mutant: Mutant) -> str:
    """The test that caught it, "" where it survived. The tree is as before afterwards."""
    path = tree / mutant.file
    text = path.read_text("utf-8")
    assert text.count(mutant.old) == 1, (
        f"{mutant.file} has {text.count(mutant.old)} of {mutant.old}"
    )
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    try:
        return failing(tree, mutant.tests)
    finally:
        path.write_text(text, "utf-8")


def main() -> int:
    """Print which test caught which mutant."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only those whose line has one")
    parser.add_argument("--list", action="store_true", help="what there is, without running it")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if not args.words or any(word in m.what for word in args.words)]
    if args.list:
        print("\n".join(f"{mutant.what}  ({mutant.tests})" for mutant in chosen))
        return 0
    survived = 0
    with tempfile.TemporaryDirectory(prefix="cutaway-mutants-") as folder:
        tree = copied(Path(folder))
        if failed := failing(tree, " ".join(dict.fromkeys(m.tests for m in chosen))):
            raise SystemExit(f"{failed} fails without a mutant")
        for mutant in chosen:
            by = caught(tree, mutant)
            survived += not by
            print(f"{mutant.what}: {by or 'SURVIVED'}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Headers of published sizes: parameters as published, and memory at 8k context by the formulas."""

from contextlib import ExitStack
from math import prod
from pathlib import Path

import pytest

from engine.protocol import DescribePlan, Planned
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import open_model
from engine.runner.placing.describe import describe_plan
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import place
from engine.settings import EngineOptions
from tests.engine.models.published.header import nbytes, write
from tests.engine.models.published.sizes import CONTEXT, SIZES

HOST = EngineOptions(device="host", ctx=CONTEXT)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SIZES)
def test_a_published_size(name: str, tmp_path: Path) -> None:
    size = SIZES[name]
    path = write(tmp_path / f"{name}.gguf", size.arch, size.keys, size.shapes, n_vocab=64)
    with ExitStack() as stack:
        opened = open_model(path, HOST, MAX_BATCH, cache_format(HOST), stack)
        counted = sum(
            prod(opened.file.tensors[n].shape) for n in set(opened.built.sources.values())
        )
        graphs = ModelGraphs.of(opened.built, HOST)
        placed = place(graphs, open_devices(HOST, stack), HOST)
        planned = describe_plan(DescribePlan(1, str(path), HOST), placed, name)
    assert abs(counted - size.params) <= 0.005 * size.params
    state = kept(planned, "recurrent state")
    assert kept(planned, "cache") + state == size.cache
    assert kept(planned, "checkpoints") == 2 * state
    # Rows that are looked up and the matrix of the output are two, also where one is mapped.
    is_tied = opened.built.n_vocab and "output.weight" not in size.shapes
    tied = {"a.weight": size.shapes["token_embd.weight"]} if is_tied else {}
    assert kept(planned, "weights", "input") == nbytes(size.shapes) + nbytes(tied)


def kept(planned: Planned, *components: str) -> int:
    return sum(row.size for row in planned.memory.rows if row.component in components)

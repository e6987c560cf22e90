"""The four sites in every architecture of the table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.protocol import Edit
from engine.runner.api import Model
from engine.runner.edits import edits_for
from engine.runner.stepper import StepPart
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import Row
from tests.engine.models.text.test_rows import first_driver, opened, row  # noqa: F401
from tests.truth.compare import nmse

SITES = ("residual", "attention", "feed_forward", "heads")
N = 12


def logits(model: Model, ids: np.ndarray, edits: Sequence[Edit]) -> np.ndarray:
    """[N, V] of one step."""
    stepper = model.loaded.stepper
    stepper.forget(0)
    made = edits_for(model.loaded.built, edits, N)
    return stepper.start_together([StepPart(ids[:N].tolist(), 0, range(N), edits=made)])().copy()


def everywhere(model: Model, by: float) -> list[Edit]:
    """Five channels of every site of every layer that has it, times a factor: of all of them some
    models' norms would take it off again.
    """
    results = model.loaded.built.results
    found = [(site, results.layers(site)) for site in SITES]
    return [Edit.of("scale", site, layers, by, channels=(0, 5)) for site, layers in found if layers]


@pytest.mark.sampled(4)
def test_each_layer_has_its_sites(row: Row, tmp_path: Path) -> None:  # noqa: F811
    """Times one is what it is without, to the bit; times a half it is not."""
    ids, _ = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        built = model.loaded.built
        layers = set(range(built.n_layer))
        found = {site: set(built.results.layers(site)) for site in SITES}
        assert found["residual"] == found["attention"] | found["feed_forward"] == layers
        assert found["heads"] >= {i for i in layers if built.model.n_heads(i)}
        plain = logits(model, ids[0], [])
        np.testing.assert_array_equal(logits(model, ids[0], everywhere(model, 1.0)), plain)
        for one in everywhere(model, 0.5):
            assert nmse(logits(model, ids[0], [one]), plain) > 1e-8, one.site


@pytest.mark.full
@pytest.mark.device
def test_devices_edit_as_the_host_does(row: Row, tmp_path: Path) -> None:  # noqa: F811
    """As far as they agree without edits."""
    ids, _ = golden(row)
    path = write(row, tmp_path, Kind.F16)
    with opened(path, "host") as model:
        want = logits(model, ids[0], everywhere(model, 0.7))
    with opened(path, first_driver()) as model:
        assert nmse(logits(model, ids[0], everywhere(model, 0.7)), want) < 1e-5
        nothing = logits(model, ids[0], everywhere(model, 1.0))
        assert nmse(nothing, logits(model, ids[0], [])) < 1e-5

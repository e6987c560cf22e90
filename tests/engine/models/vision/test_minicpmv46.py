"""What MiniCPM-V 4.6's tower alone does: behind its windows fewer rows see each other."""

from pathlib import Path

import numpy as np

from engine.images.plan import Limits, Size
from engine.images.resize import normalised
from tests.engine.models.vision.test_goldens import tower_of
from tests.goldens.vision.store import load_cases


def test_blocks_behind_windows_see_as_many_rows_as_there_are(tmp_path: Path) -> None:
    """12 x 4 patches, then 6 x 2 windows, in a plan of 64."""
    view = load_cases("minicpmv46")["two"].seen[1].views[0]
    with tower_of("minicpmv46", tmp_path) as running:
        tower = running.built.tower
        plan = tower.plan(Size(view.shape[1], view.shape[0]), Limits())
        step = tower.inputs(normalised(view, tower.rule), plan, 0)
        p, _ = running.built.build(tower.bucket(step.n))
        filled = {tensor.name: values for tensor, values in p.fill(step).items()}
    seen = {int(v[0]) for name, v in filled.items() if name.startswith("v/inp_n_kv")}
    assert (step.n, tower.bucket(step.n), seen) == (48, 64, {48, 12})
    counts = [np.count_nonzero(v[:, 0]) for n, v in filled.items() if n.startswith("v/inp_all_cel")]
    assert sorted(counts) == [12, 48]

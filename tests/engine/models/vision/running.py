"""A tower from its file, run on one device."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.device.backend import Backend, Location
from engine.gguf import open_gguf
from engine.graph.tensor import Tensor
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import normalised
from engine.models.vision.base import TextHost
from engine.models.vision.build import BuiltTower, build_tower
from engine.runner.devices import open_devices
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions
from engine.weights.load import InFile, allocate, fill, free, matmul_only, plan_weights


def host_of(arch: str, n_embd: int, rms_eps: float = 1e-6) -> TextHost:
    """A text model of that size whose vocabulary has everything."""
    return TextHost(arch, n_embd, 2, rms_eps, lambda token: True)


@dataclass
class Running:
    """A built tower and where it computes."""

    built: BuiltTower
    planner: Planner

    def rows(self, view: np.ndarray, plan: ImagePlan | None = None, index: int = 0) -> np.ndarray:
        """f32 [rows, E * (1 + deepstack)] of one view's uint8 pixels [h, w, 3]."""
        tower = self.built.tower
        h, w, _ = view.shape
        plan = plan or tower.plan(Size(w, h), Limits())
        step = tower.inputs(normalised(view, tower.rule), plan, index)
        n = tower.bucket(step.n)
        made, p = self.planner.plan_with(n, lambda: self.built.build(n))
        (rows,) = made.run(p.fill(step))
        return rows.reshape(rows.shape[-2:])[: step.rows].copy()


@contextmanager
def running(path: Path, host: TextHost, device: str = "host") -> Iterator[Running]:
    """The tower in the file at `path`, all of it on one device."""
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        built = build_tower(file, host)
        backends = open_devices(EngineOptions(device=device), stack).backends
        chosen = next(b for b in backends if b.name == device)
        used: tuple[Backend, ...] = tuple(dict.fromkeys((chosen, backends[-1])))
        _, graph = built.build(built.tower.bucket(1))
        mapped = {t: backends[-1].map(file.data(name)) for t, name in built.sources.items()}
        placed: dict[Tensor, Location] = {}
        stack.callback(lambda: free(placed.values()))
        plan = plan_weights(
            built.sources, lambda t: chosen, built.owners.__getitem__, matmul_only(graph)
        )
        allocate(plan, placed)
        for _ in fill(placed, lambda t: chosen, lambda t: InFile(file, built.sources[t])):
            pass
        homes = placed | {t: at for t, at in mapped.items() if t not in placed}
        planner = Planner(used, homes, mapped=mapped)
        stack.callback(planner.close)
        yield Running(built, planner)

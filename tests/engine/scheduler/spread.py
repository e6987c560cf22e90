"""One model over all devices of this process in turn of several placements; prints what came out.

`python -m tests.engine.scheduler.spread MODEL [--tokens N] [--ctx N]`: a line of JSON for each
placement, with the NMSE of its logits against those of the first device alone.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import open_together
from engine.backends.opencl.drivers.device import find_devices
from engine.device.backend import Backend, Component, Location, Owner, Upload
from engine.gguf import GGUFFile, open_gguf
from engine.graph.graph import is_numbered
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.models.build import BuiltModel, StepShape, build_model
from engine.runner.stepper import Stepper
from engine.scheduler.assign import NO_PINS, Pins
from engine.scheduler.plan import Planner
from engine.weights.load import matmul_only
from tests.truth.compare import nmse

Home = Callable[[Tensor], Backend]
BATCH = 64


@contextmanager
def spread(
    file: GGUFFile, built: BuiltModel, backends: Sequence[Backend], home: Home, pins: Pins = NO_PINS
) -> Iterator[Stepper]:
    """The model with every weight and cache on the backend that `home` names."""
    host = backends[-1]
    _, graph = built.build(StepShape(1, 1, built.buckets([0] * len(built.caches.caches))))
    tiled = matmul_only(graph)
    mapped = {t: host.map(file.data(name)) for t, name in built.sources.items()}
    placed: dict[Tensor, Location] = {}
    kept = [leaf for i in range(built.n_layer) for leaf, _ in built.kept_by(i)]
    for tensor in (*built.sources, *kept):
        backend, is_weight = home(tensor), tensor.role is Role.WEIGHT
        if backend is host and is_weight:
            placed[tensor] = mapped[tensor]
            continue
        kind = backend.buffer_type(tensor.fmt, tensor.shape, tensor in tiled)
        size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
        owner = Owner(Component.WEIGHTS if is_weight else Component.CACHE)
        placed[tensor] = Location(backend.allocate(kind, size, owner), 0)
        if is_weight:
            blocks = file.data(built.sources[tensor])
            for _ in backend.upload([Upload(placed[tensor], tensor.fmt, tensor.shape, blocks)]):
                pass
    planner = Planner(backends, placed, mapped=mapped, pins=pins)
    built.caches.clear()
    try:
        yield Stepper(built, planner)
    finally:
        planner.close()
        for at in placed.values():
            if at not in mapped.values():
                at.buffer.free()


def logits(stepper: Stepper, tokens: Sequence[int]) -> np.ndarray:
    """Of a prompt, of three tokens behind it, and of one more when four in the middle are gone."""
    end = len(tokens) - 3
    parts = [stepper.step(tokens[:end], 0, range(end))]
    parts += [stepper.step([t], i, [0]) for i, t in enumerate(tokens[end:], end)]
    stepper.forget(4, 8)
    parts.append(stepper.step(tokens[:1], len(tokens) - 4, [0]))
    return np.concatenate(parts)


def placements(built: BuiltModel, backends: Sequence[Backend]) -> dict[str, tuple[Home, Pins]]:
    """Homes of leaves and pins of nodes, by what they are for."""
    *devices, host = backends
    last, n = devices[-1], built.n_layer
    embedding = built.model.weights.embedding.weight
    layer = {t: owner.layer for t, owner in built.owners.items()}
    layer |= {leaf: i for i in range(n) for leaf, _ in built.kept_by(i)}
    feeds = {t for t, name in built.sources.items() if ".ffn_" in name}
    chance = random.Random(5)
    anywhere = {t: chance.choice(backends) for t in layer}

    def by_layer(rule: Callable[[int], Backend]) -> Home:
        return lambda t: host if t is embedding else rule(_number(layer[t]))

    def thirds(i: int) -> Backend:
        return devices[i * len(devices) // (n + 1)]

    return {
        "layers": (by_layer(thirds), NO_PINS),
        "one layer alone": (by_layer(lambda i: last if i == 1 else devices[0]), NO_PINS),
        "output elsewhere": (by_layer(lambda i: last if i == n else devices[0]), NO_PINS),
        "attention and feed-forward apart": (
            lambda t: host if t is embedding else last if t in feeds else devices[0],
            NO_PINS,
        ),
        "host in the middle": (by_layer(lambda i: host if i == 1 else thirds(i)), NO_PINS),
        "every tensor anywhere": (anywhere.__getitem__, NO_PINS),
        "nodes pinned anywhere": (by_layer(thirds), _pins(built, backends, chance)),
    }


def _number(layer: int | None) -> int:
    return layer or 0


def _pins(built: BuiltModel, backends: Sequence[Backend], chance: random.Random) -> Pins:
    """Half of what reads no weight and writes no cache, each anywhere."""
    cells = built.buckets([BATCH] * len(built.caches.caches))
    _, graph = built.build(StepShape(BATCH, BATCH, cells))
    free = [
        node.name
        for node in graph.nodes
        if node.op not in VIEW_OPS
        and node.storage.role is Role.NONE
        and not is_numbered(node.name)
        and not any(s is not None and s.storage.role is Role.WEIGHT for s in node.src)
    ]
    return {name: chance.choice(backends) for name in free if chance.random() < 0.5}


def run(path: Path, n_tokens: int, n_ctx: int) -> Iterator[Mapping[str, object]]:
    """What each placement gives, in words and numbers."""
    devices = open_together([d for d in find_devices() if not d.info.problem])
    backends: list[Backend] = [*devices, HostBackend()]
    chance = random.Random(7)
    with open_gguf(path) as file:
        built = build_model(file, n_ctx, BATCH)
        tokens = [chance.randrange(4, built.n_vocab) for _ in range(n_tokens)]
        with spread(file, built, backends, lambda t: backends[0]) as alone:
            want = logits(alone, tokens)
        for name, (home, pins) in placements(built, backends).items():
            with spread(file, built, backends, home, pins) as stepper:
                got = logits(stepper, tokens)
                again = logits_again(stepper, tokens)
                cells = built.buckets([n_tokens] * len(built.caches.caches))
                outline = stepper.planner.outline(built.build(StepShape(1, 1, cells))[1])
            splits = [part.split.backend.name for part in outline.splits]
            made = [copy for part in outline.splits for copy in part.split.copies]
            copies = [(copy.source, copy.target, copy.made) for copy in made]
            yield {
                "placement": name,
                "nmse": nmse(got, want),
                "again": bool(np.array_equal(got, again)),
                "splits": len(splits),
                "devices": sorted(set(splits)),
                "pinned": sum(a.cause == "usr" for a in outline.assignments.values()),
                "copies": len(copies),
                "twice": len(copies) - len(set(copies)),
            }
    for backend in backends:
        backend.close()


def logits_again(stepper: Stepper, tokens: Sequence[int]) -> np.ndarray:
    """The same from the start, on the plans that are there."""
    stepper.forget(0)
    return logits(stepper, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--ctx", type=int, default=64)
    args = parser.parse_args()
    for result in run(args.model, args.tokens, args.ctx):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

"""How far predicted speeds are from measured ones.

    python -m tests.engine.runner.placing.speed_error MODEL DEVICE DEVICE [ROUNDS]

Ten placements of a model that is loaded once and moved, each predicted and timed in every round.
The best prediction is compared with the best step and with the median one: on a machine that does
other things as well, they lie far apart.
"""

import random
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from statistics import median
from time import perf_counter_ns

from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import cache_format, load_model
from engine.runner.pictures.beside import open_model
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.move import move
from engine.runner.placing.speed import Timings, measure_speed
from engine.runner.placing.tiles import Parts
from engine.settings import EngineOptions

DEPTH, STEPS = 32, 24


def rules(n_layer: int, one: str, two: str) -> list[str]:
    """Ten placements: whole, halves, thirds, sandwiches, mixed ones, and parts by name."""
    half, third, last = n_layer // 2, n_layer // 3, n_layer - 1
    source = random.Random(3)
    mixed = ",".join(f"{i}={source.choice((one, two))}" for i in range(n_layer))
    return [
        f"0-{last}={one},out={one}",
        f"0-{last}={two},out={two}",
        f"0-{half}={one},{half + 1}-{last}={two},out={two}",
        f"0-{third}={two},{third + 1}-{last}={one},out={one}",
        f"0-{2 * third}={one},{2 * third + 1}-{last}={two},out={one}",
        f"0-{last}={two},out={one}",
        f"0-{last}={one},out={two}",
        f"{mixed},out={one}",
        f"0-{last}={one},out={one},ffn_down={two}",
        f"0-{half}={two},{half + 1}-{last}={one},out={two}",
    ]


def measured(model_path: str, one: str, two: str, rounds: int) -> None:
    """Prints a line for each placement, and the largest error."""
    options = EngineOptions(device=f"{one},{two}", place=f"out={one}")
    predicted: dict[str, float] = {}
    real: dict[str, list[float]] = {}
    with ExitStack() as stack, closing(load_model(model_path, options)) as model:
        opened = open_model(model_path, options, MAX_BATCH, cache_format(options), stack)
        graphs, devices = ModelGraphs.of(opened.built, options), open_devices(options, stack)
        timings, parts = Timings(graphs, devices.backends, options), Parts(opened.built)
        model.stepper.step(list(range(5, 5 + DEPTH)), 0, [0])
        for _ in range(rounds):
            host = devices.backends[-1]
            measure_speed(
                opened, graphs, timings, parts.of, host, True, lambda *_: None, lambda: False
            )
            for rule in rules(model.built.n_layer, one, two):
                move(model, replace(options, place=rule))
                mine = Parts(model.built)
                speed = timings.predict(model.dry, model.dry.one_token(), mine.of, DEPTH)
                assert speed is not None
                predicted[rule] = max(predicted.get(rule, 0.0), speed.tokens_per_s)
                for _ in range(STEPS):
                    start = perf_counter_ns()
                    model.stepper.step([9], DEPTH, [0])
                    per_s = 1e9 / (perf_counter_ns() - start)
                    model.stepper.forget(DEPTH)
                    real.setdefault(rule, []).append(per_s)
    worst = [0.0, 0.0]
    for rule, steps in real.items():
        said = f"predicted {predicted[rule]:7.1f} t/s"
        for i, per_s in enumerate((max(steps), median(steps))):
            error = predicted[rule] / per_s - 1
            worst[i] = max(worst[i], abs(error))
            said += f", {('best', 'median')[i]} {per_s:7.1f} ({error:+.0%})"
        print(f"{said}  {rule[:60]}")
    print(f"largest error {worst[0]:.0%} of the best, {worst[1]:.0%} of the median")


if __name__ == "__main__":
    measured(*sys.argv[1:4], rounds=int(sys.argv[4]) if len(sys.argv) > 4 else 6)

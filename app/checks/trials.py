"""The trials of a device's tuning."""

from collections.abc import Callable, Iterator

import msgspec

from app.terminal.child import child, never
from engine.errors import CutawayError
from engine.protocol import TrialResult, Tune, TunePlan, TuneResult

SILENCE = 180.0  # seconds that one trial may take; compilers are slow


def trials(
    wanted: Tune, stop: Callable[[], bool] = never
) -> Iterator[tuple[int, TrialResult | TuneResult]]:
    """(of how many, trial), the result last. Raises `CutawayError` where there is none."""
    total, result = 0, None
    text = msgspec.json.encode(wanted).decode()
    with child("engine.tuner", text, timeout=SILENCE, stop=stop) as process:
        for line in process.lines():
            told = msgspec.json.decode(line, type=TunePlan | TrialResult | TuneResult)
            if isinstance(told, TunePlan):
                if told.problem:
                    raise CutawayError(told.problem)
                total = told.n_trials
                continue
            result = told
            yield total, told
        problem = process.problem()
    if not isinstance(result, TuneResult):
        raise CutawayError(f"tuning {wanted.device}: {problem or 'it ended early'}")

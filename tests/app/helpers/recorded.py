"""A recorded answer as an engine would tell it: numbers that are easily checked."""

import numpy as np

from engine.protocol import AnswerRecorded, HostRecord, LaunchKind, Phase, RecordedStep, SplitRecord

OPS = (("MUL_MAT", "Qcur", "gemv Q4_1"), ("ROPE", "Qcur_rope", "rope"), ("ADD", "l_out", "add"))
US = 1000


def step(
    phase: Phase, start: int, context: int, n_layer: int, us: int = 10, n: int = 1
) -> RecordedStep:
    """A layer's launches take `us`, 1 and 2 microseconds; odd layers lie on the second device."""
    kinds, starts, ends, sizes, flops = [], [], [], [], []
    now = 5 * US
    for layer in range(n_layer):
        for at, length in enumerate((us, 1, 2)):
            kinds.append(layer * len(OPS) + at)
            starts.append(now)
            now += length * US
            ends.append(now)
            sizes.append(40_000 if at == 0 else 100)
            flops.append(80_000 * n if at == 0 else 50)
    end = now + 4 * US

    def column(values: list[int]) -> bytes:
        return np.array(values, "<i8").tobytes()

    host = [HostRecord("inputs", 0, 5 * US), HostRecord("logits", 5 * US, end)]
    split = SplitRecord("intel:0", 9, "inp_embd", "l_out-1", 0, 0, 0, now)
    return RecordedStep(
        phase, n, context, start, end, np.array(kinds, "<i4").tobytes(), column(starts),
        column(ends), column(sizes), column(flops), host, [split],
    )  # fmt: skip


def recorded(number: int = 0, n_steps: int = 4, n_layer: int = 4, us: int = 10) -> AnswerRecorded:
    """A prompt of 32 tokens, then tokens one by one."""
    kinds = [
        LaunchKind(layer % 2, ("intel:0", "nvidia:0")[layer % 2], kernel, op, f"{name}-{layer}")
        for layer in range(n_layer)
        for op, name, kernel in OPS
    ]
    steps = [step("prefill", 0, 0, n_layer, 8 * us, 32)]
    for i in range(n_steps):
        before = steps[-1]
        begin = before.start + before.step_ns + 30 * US
        steps.append(step("decode", begin, 32 + i, n_layer, us))
    return AnswerRecorded(number, kinds, steps, 60 * US, 66 * US, 1, 0)

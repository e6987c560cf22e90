"""Where the time of a step went: by groups of operations and device, with the gaps named."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.language import tr
from engine.protocol import LaunchRecord, StepRecord

BEFORE, BETWEEN, AFTER = tr("host before"), tr("launches and waiting"), tr("host after, sampling")
_LAYER = re.compile(r"-\d+$")
# What the names of llama.cpp's tensors begin with; the first that fits counts.
_NAMES = (
    (re.compile(r"ffn_moe|ffn_.*exps"), tr("experts")),
    (re.compile(r".*norm"), tr("norms")),
    (re.compile(r"ffn|l_out"), tr("feed-forward")),
    (re.compile(r"attn|[QKVqkv]cur|[qkv]_|kq|cache_|Q|K|V"), tr("attention")),
    (re.compile(r"result|output|logits"), tr("output")),
    (re.compile(r"inp|embd|token_embd"), tr("input")),
    (re.compile(r"ssm|conv|state|rwkv|wkv"), tr("recurrent")),
)
_OPS = {
    "ATTENTION": tr("attention"),
    "ROPE": tr("attention"),
    "SET_ROWS": tr("attention"),
    "NORM": tr("norms"),
}
OTHER = tr("other")
ORDER = (
    *(
        tr("input"),
        tr("norms"),
        tr("attention"),
        tr("recurrent"),
        tr("feed-forward"),
        tr("experts"),
        tr("output"),
        OTHER,
    ),
    *(BEFORE, BETWEEN, AFTER),
)


@dataclass(frozen=True)
class TimeShare:
    """Nanoseconds of a group on a device; `device` is empty for what no device does.

    `launches` counts calls of kernels.
    """

    group: str
    device: str
    ns: int
    launches: int = 0


def group_of(launch: LaunchRecord) -> str:
    """Which part of the model a launch belongs to, by its tensor's name, else by its operation."""
    name = _LAYER.sub("", launch.name)
    found = (group for pattern, group in _NAMES if pattern.match(name))
    return next(found, _OPS.get(launch.op.upper(), OTHER))


def time_shares(step: StepRecord) -> list[TimeShare]:
    """Devices in the order of their first launch, groups in the model's order, then the gaps.

    What devices do side by side counts for each, so only without that it sums to the step.
    """
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for launch in step.launches:
        key = launch.device, group_of(launch)
        ns, count = sums.get(key, (0, 0))
        sums[key] = ns + launch.end - launch.start, count + 1
    devices = list(dict.fromkeys(launch.device for launch in step.launches))
    shares = [
        TimeShare(group, device, *sums[device, group])
        for device in devices
        for group in ORDER
        if (device, group) in sums
    ]
    return shares + list(_gaps(step))


def _gaps(step: StepRecord) -> Iterator[TimeShare]:
    """Yield the time that no device accounts for, named by its position in the step."""
    busy = _busy(step.launches)
    if not busy:
        yield TimeShare(BEFORE, "", step.step_ns)
        return
    inside = sum(after[0] - before[1] for before, after in zip(busy, busy[1:], strict=False))
    for name, ns in (
        (BEFORE, busy[0][0]),
        (BETWEEN, inside),
        (AFTER, step.step_ns - busy[-1][1]),
    ):
        if ns > 0:
            yield TimeShare(name, "", ns)


def _busy(launches: Sequence[LaunchRecord]) -> list[tuple[int, int]]:
    """Times in which any device computes, in order and apart."""
    busy: list[tuple[int, int]] = []
    for launch in sorted(launches, key=lambda one: one.start):
        if busy and launch.start <= busy[-1][1]:
            busy[-1] = busy[-1][0], max(busy[-1][1], launch.end)
        else:
            busy.append((launch.start, launch.end))
    return busy

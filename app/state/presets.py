"""Named samplings with a system prompt."""

import msgspec

from engine.protocol import Sampling


class Preset(msgspec.Struct, frozen=True):
    """`system` None leaves the system prompt as it is."""

    name: str
    sampling: Sampling
    system: str | None = None


BUILT_IN = (
    Preset("Balanced", Sampling()),
    Preset("Precise", Sampling(temperature=0.2, top_p=0.9)),
    Preset("Creative", Sampling(temperature=1.1, top_k=0, min_p=0.03)),
)

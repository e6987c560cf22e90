"""Features of a sparse autoencoder at each token of a text."""

from typing import ClassVar

import msgspec

from engine.protocol.inside.compare import ComparedText
from engine.protocol.message import Reply, Request, StageName


class ActiveFeature(msgspec.Struct, frozen=True):
    """A feature with its activation at a token."""

    index: int
    activation: float


class FeaturesFound(Reply, frozen=True):
    """The strongest `features` of each token in order. `l0` is the mean number of active ones,
    `explained` the share of variance that is reconstructed, both without the first token. `names`
    has those that were found, else the tokens that a feature promotes. `site` is RESULT-LAYER.
    `sae` and `own_site` are as in the request.
    """

    name: str
    device: str
    kind: str
    site: str
    n_features: int
    tokens: list[str]
    features: list[list[ActiveFeature]]
    l0: float
    explained: float
    names: dict[int, str]
    notes: list[str]
    sae: str = ""
    own_site: str = ""


class FindFeatures(Request[FeaturesFound], frozen=True):
    """Find the `top` strongest features at each token. `sae` is a folder of Gemma Scope or SAELens,
    `site` replaces the result that it names; `names` is a folder of Neuronpedia's explanations
    (batch-N.jsonl.gz).
    """

    stage: ClassVar[StageName] = "prefill"
    in_parts: ClassVar[bool] = True

    sae: str
    text: ComparedText
    top: int = 10
    site: str = ""
    names: str = ""

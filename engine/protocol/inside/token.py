"""How a word came to be: what each layer would say, where heads look, what sampling removed.

Arrays are little-endian bytes. L counts layers, H heads, P the places of a context, k the tokens
that are listed. Log-probabilities and entropies are natural.
"""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.inside.change import Change
from engine.protocol.inside.edit import Edit
from engine.protocol.measure import StepRecord
from engine.protocol.message import Reply, Request, StageName
from engine.protocol.talk.chat import Alternative, ChatMessage, Sampling, Tools
from engine.protocol.talk.picture import PlacedRows


class Lens(msgspec.Struct, frozen=True):
    """The logit lens: the model's last norm and output applied to what each layer gives.

    `layers` are the numbers of the rows; the last row is the model's own answer. `ids` i32 and
    `logp` f32 [L, k] are the most likely tokens of each, the likeliest first. Of the `wanted` token
    `rank` i32 [L] counts from 1 and `wanted_logp` is f32 [L]. `entropy` f32 [L] is of all tokens.
    `texts` has every token that occurs. `kind` is logit, or that of the file that was used, which
    was made of `n_prompts` texts (0: unknown).
    """

    layers: list[int]
    ids: bytes
    logp: bytes
    wanted: int
    rank: bytes
    wanted_logp: bytes
    entropy: bytes
    texts: dict[int, str]
    kind: Literal["logit", "jacobian", "tuned"] = "logit"
    n_prompts: int = 0


class Attended(msgspec.Struct, frozen=True):
    """Where the heads of each layer look, from the last place of a context on all `n_places`.

    `layers` are those that attend to tokens. Of each head f32 [L, H]: `entropy`, `distance` (mean
    tokens back) and `first` (the share of place 0, often a sink). `mean` f32 [P] is over all layers
    and heads. `rows` f32 [H, P] are those of the layers that were requested. A row sums to 1, to
    less where a head has a sink of its own; places that a layer does not see are 0, and so are
    heads that only other layers have.
    """

    layers: list[int]
    n_head: int
    n_places: int
    entropy: bytes
    distance: bytes
    first: bytes
    mean: bytes
    rows: dict[int, bytes]


class ChoiceStep(msgspec.Struct, frozen=True):
    """Tokens left after a step of sampling: their number and their entropy.

    `removed` is the probability, before the step, of what it took away; `probabilities` are those
    of the choice's tokens after it, 0 where they are gone.
    """

    name: str
    n_left: int
    removed: float
    entropy: float
    probabilities: list[float]


class TokenChoice(msgspec.Struct, frozen=True):
    """How the next token is drawn: `top` are the likeliest by the model alone, and the wanted one
    behind them where it is not among these.

    Steps follow in order, the first is the model itself: model, penalties, top_k, top_p, min_p,
    temperature; a greedy choice has no others between penalties and temperature.
    """

    top: list[Alternative]
    steps: list[ChoiceStep]


class ContextItems(msgspec.Struct, frozen=True):
    """The items that a model reads: `text` is all of it, special tokens included. `ids` i32 [items]
    are -1 at rows of pictures, which `rows` show. Item i ends in `text` at `ends` i32 [items], in
    characters; of tokens that are parts of one character, all end behind it.
    """

    text: str
    ids: bytes
    ends: bytes
    rows: list[PlacedRows]


class Examined(Reply, frozen=True):
    """How the token that follows the first `n_context` items came to be, or would.

    `n_computed` of them had to be computed. `note` says where the conversation in the caches was
    given up for it.
    """

    items: ContextItems
    n_context: int
    n_computed: int = 0
    lens: Lens | None = None
    attention: Attended | None = None
    choice: TokenChoice | None = None
    step: StepRecord | None = None
    note: str = ""


class Examine(Request[Examined], frozen=True):
    """Look at how a token came to be: the step that made it is computed again beside the
    conversation, which stays as it is in the caches.

    The items are those of a `Generate` with the same first four fields and `tools`; with `changes`
    and `edits` they are a changed model's. `at` is the place of the
    token among them, None for the one that would follow; `wanted` is the token to follow through
    the layers (None: the one at `at`, or the likeliest). The answer has a `lens` with `top_k`
    tokens a layer, attention where `attention_layers` is not None, with all rows of those layers,
    the choice that `sampling` leaves, and where `record` the times of that step without anything
    looked at. Results of the step that the regular expressions `probes` name come before it, as
    `ResultPart`. `lens_file` is a lens to read the layers with instead of the output alone.
    Where nothing is requested, nothing is computed.
    """

    between: ClassVar[bool] = True

    stage: ClassVar[StageName] = "prefill"

    messages: list[ChatMessage] = []
    prompt: str | None = None
    prefix: str = ""
    prefix_tokens: list[int] = []
    at: int | None = None
    wanted: int | None = None
    top_k: int = 8
    lens: bool = False
    attention_layers: list[int] | None = None
    sampling: Sampling | None = None
    record: bool = False
    changes: list[Change] = []
    edits: list[Edit] = []
    probes: list[str] = []
    tools: Tools = Tools()
    lens_file: str = ""


class TokenInside(Reply, frozen=True):
    """How a token of a running answer came to be; `index` counts the answer's from 0.

    It has what `Live` requests. `context` comes with the first one, and again when a shift has
    changed it: the items that were read before the token; those that follow are the answer's.
    `step` are the times of the step that read the token, and come apart from all else. `problem`
    says why there is nothing, and then nothing follows.
    """

    index: int
    context: ContextItems | None = None
    lens: Lens | None = None
    attention: Attended | None = None
    choice: TokenChoice | None = None
    step: StepRecord | None = None
    problem: str = ""

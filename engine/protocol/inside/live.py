"""Inside values sent during an answer.

Arrays are little-endian bytes.
"""

import msgspec

from engine.protocol.message import Order, Reply

LOOK_SHARE = 0.07
"""The most of answers' time that the engine spends on `TokenInside`, whatever a look takes."""


class Live(msgspec.Struct, frozen=True):
    """Which inside values an answer sends while it is written.

    `probes` are regular expressions: of each result whose whole name one of them matches, numbers
    of every token come as `ProbedTokens`. All else comes as `TokenInside`, of as many tokens as
    `LOOK_SHARE` of the time allows: the `lens` with `top_k` tokens a layer; `attention`, with all
    rows of the layers `rows`; with either of these the `choice` of the answer's sampling; and once
    a second the times of the `step`. With `record` every step is recorded, of the prompt too, and
    comes as one `AnswerRecorded` at the answer's end, or when it is no longer wanted.
    """

    probes: list[str] = []
    lens: bool = False
    top_k: int = 8
    attention: bool = False
    rows: list[int] = []
    choice: bool = False
    step: bool = False
    cells: bool = False
    record: bool = False


class Look(Order, frozen=True):
    """From the next token on, the `Generate` of this id shows this."""

    live: Live


class ProbedRow(msgspec.Struct, frozen=True):
    """A probed result: the how manyeth of its `name` in the graph, from 0, and its layer."""

    name: str
    occurrence: int
    layer: int | None


class ProbedTokens(Reply, frozen=True):
    """Numbers of probed results while the model read tokens of its answer, `first` being the first
    of them (its index in the answer), in order and without gaps.

    f32 [tokens, rows]: `rms` and `largest`, the largest |x|, of what is finite. i32 [tokens, rows]:
    `at`, the channel where that is (its place among all of the token's numbers), and how many `nan`
    and `inf` there are. `problem` says why there is nothing, and then nothing follows.
    """

    first: int
    rows: list[ProbedRow]
    rms: bytes = b""
    largest: bytes = b""
    at: bytes = b""
    nan: bytes = b""
    inf: bytes = b""
    problem: str = ""

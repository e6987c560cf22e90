"""Chat requests and answers, their tools, the form of an answer, and sampling."""

from typing import Any, ClassVar, Literal

import msgspec

from engine.errors import BadSetting
from engine.protocol.inside.change import Change
from engine.protocol.inside.edit import Edit
from engine.protocol.inside.live import Live
from engine.protocol.message import Reply, Request, StageName
from engine.protocol.talk.infill import Infill, LineLimits
from engine.protocol.talk.picture import PictureLimits, PictureStats, PlacedRows

ToolChoice = Literal["none", "auto", "required"]


class Tool(msgspec.Struct, frozen=True):
    """A function; `parameters` is the JSON schema of its arguments as text."""

    name: str
    description: str = ""
    parameters: str = "{}"


class Tools(msgspec.Struct, frozen=True):
    """Tools that may be called. With `only`, the function of that name must be; `several` calls may
    stand in one answer.
    """

    known: list[Tool] = []
    choice: ToolChoice = "auto"
    only: str = ""
    several: bool = True


class ToolCall(msgspec.Struct, frozen=True):
    """A call that an assistant's message made; `arguments` is JSON as text."""

    id: str
    name: str
    arguments: str


class CallPart(msgspec.Struct, frozen=True):
    """More of the answer's call number `index`: the first part has its id and name, and the
    `arguments` of all parts in a row are JSON as text.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class JsonObject(msgspec.Struct, frozen=True, tag="json"):
    """Any JSON object."""


class JsonSchema(msgspec.Struct, frozen=True, tag="schema"):
    """JSON that fits a schema, which is JSON as text."""

    text: str


class Regex(msgspec.Struct, frozen=True, tag="regex"):
    """A text that a regular expression matches from its start to its end."""

    pattern: str


class Grammar(msgspec.Struct, frozen=True, tag="grammar"):
    """A text of a grammar: Lark as llguidance reads it, or GBNF as llama.cpp does."""

    text: str
    syntax: Literal["lark", "gbnf"] = "lark"


AnswerForm = JsonObject | JsonSchema | Regex | Grammar


class FormChecked(Reply, frozen=True):
    """Why a form cannot be answered in, in a sentence; empty where it can."""

    problem: str


class CheckForm(Request[FormChecked], frozen=True):
    """True if a form is one that an answer can be held to, whatever model is open."""

    beside: ClassVar[bool] = True

    form: AnswerForm


WhenFull = Literal["shift", "middle", "stop"]
PieceKind = Literal["answer", "thought", "call"]


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is drawn; llama.cpp's order and defaults. `seed` None is random.

    Equal seeds draw equally from equal logits. Where a prompt's start is still cached, other
    kernels compute the rest, and logits may differ in their last bits from those of a fresh
    context: where two tokens are nearly as likely, another one may be drawn. After a shift of the
    context they always differ.


    temperature <= 0 is greedy; top_k <= 0, top_p 1 and min_p 0 are off; penalties look at the
    last `penalty_last_n` tokens (-1: all of the context).
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None

    def check(self) -> None:
        """Raise `BadSetting` for the first value out of its range."""
        for name, low, high in (
            ("temperature", 0.0, 100.0),
            ("top_p", 0.0, 1.0),
            ("min_p", 0.0, 1.0),
            ("repeat_penalty", 0.01, 100.0),
            ("frequency_penalty", -100.0, 100.0),
            ("presence_penalty", -100.0, 100.0),
            ("top_k", 0, 1 << 31),
            ("penalty_last_n", -1, 1 << 31),
        ):
            value = getattr(self, name)
            if not low <= value <= high:  # also refuses NaN
                raise BadSetting(name, value, f"a number from {low:g} to {high:g}")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise BadSetting("seed", self.seed, "a whole number from 0 to 2^64 - 1")


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """A part of a message that is text."""

    text: str


class PicturePart(msgspec.Struct, frozen=True, tag="picture"):
    """A picture that was brought with `PutPicture`, at its place in a message."""

    digest: str
    limits: PictureLimits = PictureLimits()


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn: `role` is system, user, assistant or tool; `content` a text, or parts in order.

    An assistant's may have a `thought` before it and `calls` behind it; a tool's is the result of
    the call `call_id`.
    """

    role: str
    content: str | list[TextPart | PicturePart]
    thought: str = ""
    calls: list[ToolCall] = []
    call_id: str = ""

    @property
    def text(self) -> str:
        """Its text, without its pictures."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def pictures(self) -> list[PicturePart]:
        """Its pictures in their order."""
        parts = [] if isinstance(self.content, str) else self.content
        return [part for part in parts if isinstance(part, PicturePart)]


class Alternative(msgspec.Struct, frozen=True):
    """A token that could have come, with its natural log-probability; `data` are its bytes where
    they are no text by themselves.
    """

    token: int
    text: str
    logprob: float
    data: bytes = b""


class TokenInfo(msgspec.Struct, frozen=True):
    """A generated token; `logprob`, `text` and `top` only where log-probabilities were requested,
    `data` as of an `Alternative`. `source` is what had drafted a token for its place (`form`,
    `ngram`), `drafted` that token's text where it was another one.
    """

    token: int
    logprob: float | None = None
    text: str = ""
    top: list[Alternative] = []
    data: bytes = b""
    source: str = ""
    drafted: str = ""


class Piece(Reply, frozen=True):
    """Text that is certain by now, and the tokens drawn since the last piece. Of an answer that is
    sent `apart` it is of one kind, without the marks; a call is reported by its parts.
    """

    text: str
    tokens: list[TokenInfo]
    kind: PieceKind = "answer"
    call: CallPart | None = None


class Stats(msgspec.Struct, frozen=True):
    """Counts and seconds of one answer. `prefill` covers the tokens not taken from the cache.

    Rows of pictures count as tokens. `encode_s` is the time of the tower, not in `prefill_s`;
    `n_image_rows` are the prompt's rows, `pictures` the prompt's pictures, `notes` what became of
    those that did not fit. `changes` and `edits` are those of the request. `n_forgotten` tokens
    were dropped by the `n_shifts`, `n_truncated` others of the prompt before it was read. Of
    `n_drafted` tokens that were computed ahead, `n_accepted` were those that were then drawn;
    measured steps say that this saved `saved_s`.
    """

    n_prompt: int
    n_cached: int
    n_generated: int
    tokenize_s: float
    prefill_s: float
    first_token_s: float
    decode_s: float
    seed: int
    n_context: int
    n_shifts: int = 0
    n_truncated: int = 0
    encode_s: float = 0.0
    n_image_rows: int = 0
    pictures: list[PictureStats] = []
    notes: list[str] = []
    changes: list[Change] = []
    edits: list[Edit] = []
    n_forgotten: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    saved_s: float = 0.0

    @property
    def draft_gain(self) -> float:
        """How many times as fast as without drafts the answer was written."""
        return 1 + self.saved_s / self.decode_s if self.decode_s > 0 else 1.0

    @property
    def prefill_rate(self) -> float:
        """Tokens per second while reading the prompt."""
        return (self.n_prompt - self.n_cached) / self.prefill_s if self.prefill_s > 0 else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first."""
        return (self.n_generated - 1) / self.decode_s if self.decode_s > 0 else 0.0


class Finished(Reply, frozen=True):
    """An answer has ended: `stop`, `calls` of tools, `length`, `context`, `loop` (it repeated
    itself) or `cancelled`.
    """

    reason: str
    stats: Stats
    matched: str | None = None


class Speculation(msgspec.Struct, frozen=True):
    """How tokens are guessed ahead, at most `n_max` in a step: a `type` as --spec-type takes it.
    What is left out is as the model was opened with. Answers are the same with any.
    """

    type: str = ""
    n_max: int | None = None


class Generate(Request[Finished], frozen=True):
    """Answer a chat, or continue `prompt` as it stands, or `prompt_tokens`, or write what `infill`
    requests.

    `when_full` is what becomes of a prompt or an answer that outgrows the context: its oldest part
    after the system prompt is dropped (shift), as much from a prompt's middle (middle), or neither:
    the prompt is refused, the answer stops (stop); `logprobs` requests
    that many alternatives with each token. An answer that exists in part goes on where `prefix`,
    its text so far, ends; `prefix_tokens`, where they are known, are its ids. What they say beyond
    `prefix` comes as the first piece. `watch` requests `StepTimes` now and then,
    `live` for what is inside; a `Look` changes that while the answer is written. With `changes`
    and `edits` the answer is a changed model's; changes are applied before edits.

    `form` is what the answer must be like, `tools` what it may call. `template` has further
    variables of the chat template, such as `enable_thinking`. `bias` is added to the logits of
    tokens by their ids. With `endless` the answer goes on behind a token that ends it. `stop_loops`
    ends an answer that repeats itself, unless it has a form or is `endless`. `apart` has
    thoughts, answer and calls sent as pieces of their own; `prompt_logprobs` requests the
    prompt's tokens, as `logprobs` does for the answer's, in a first piece without text. `chat` is
    a key of the chat, whose cells may be kept on the disk where the engine does that; None where
    they may not. `lora` are scales of adapters by their numbers, 0 for those that it does not name;
    None takes those that the model has.
    """

    stage: ClassVar[StageName] = "prefill"

    messages: list[ChatMessage] = []
    prompt: str | None = None
    prompt_tokens: list[int] | None = None
    infill: Infill | None = None
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    stop: list[str] = []
    form: AnswerForm | None = None
    tools: Tools = Tools()
    template: dict[str, Any] = {}
    bias: dict[int, float] = {}
    endless: bool = False
    stop_loops: bool = False
    lines: LineLimits = LineLimits()
    apart: bool = False
    logprobs: int = 0
    prompt_logprobs: int | None = None
    when_full: WhenFull = "shift"
    prefix: str = ""
    prefix_tokens: list[int] = []
    watch: bool = False
    live: Live = Live()
    changes: list[Change] = []
    edits: list[Edit] = []
    speculation: Speculation = Speculation()
    chat: str | None = None
    lora: dict[int, float] | None = None


class Rendered(Reply, frozen=True):
    """A chat as the model reads it, with its length; `chat` is as in `Loaded`.

    `rows` show which of the tokens are rows of pictures; in `text` the template's own marks stand
    for these.
    """

    text: str
    n_tokens: int
    chat: str
    rows: list[PlacedRows] = []


class Render(Request[Rendered], frozen=True):
    """Apply the chat template to messages; `tools` and `template` as in `Generate`."""

    between: ClassVar[bool] = True

    messages: list[ChatMessage]
    tools: Tools = Tools()
    template: dict[str, Any] = {}


class AnswerScored(Reply, frozen=True):
    """How likely a model finds an answer: natural log-probabilities of its tokens, f32 bytes
    (little-endian) [tokens], each after what stands before it.
    """

    logprobs: bytes


class ScoreAnswer(Request[AnswerScored], frozen=True):
    """How likely the model, with its `changes` and `edits`, finds the `tokens` as the answer to a
    chat, or as what follows `prompt`. Refused where both do not fit the context.
    """

    stage: ClassVar[StageName] = "score"
    in_parts: ClassVar[bool] = True

    messages: list[ChatMessage] = []
    prompt: str | None = None
    tokens: list[int] = []
    changes: list[Change] = []
    edits: list[Edit] = []

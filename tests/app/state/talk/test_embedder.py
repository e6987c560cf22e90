"""Parts of a document found by a hand-made embedding model, in a real engine.

Its vectors are random but for words of one meaning, which share theirs; a text's vector is the mean
of its words'. So what it finds is known without it.
"""

import io
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.documents.document import PAGE, Document
from app.library import Stored
from app.local_engine import LocalEngine
from app.state.talk.documents import PartsSearch, joined_scores, ranks
from app.state.talk.embedder import MAGIC, Embedder, Vectors, embedders
from engine.kept import read_sealed, write_sealed
from tests.app.state.conftest import Until

E, CTX = 256, 64
MEANINGS = (("car", "automobile"), ("costs", "price"), ("crowns", "money"))
FILLER = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrt"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
HIT = 37


def write_embedder(path: Path) -> Path:
    """BERT with a layer that adds nothing."""
    random = np.random.default_rng(0)
    words = [word for words in MEANINGS for word in words] + ["nine", "the", "a", *FILLER]
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(CTX)
    writer.add_embedding_length(E)
    writer.add_block_count(1)
    writer.add_feed_forward_length(E)
    writer.add_head_count(4)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([*SPECIAL, *(f"\u2581{word}" for word in words)])
    writer.add_token_types([3] * len(SPECIAL) + [1] * len(words))
    for add, token in (
        *((writer.add_pad_token_id, 0), (writer.add_unk_token_id, 1)),
        *((writer.add_bos_token_id, 2), (writer.add_sep_token_id, 3)),
    ):
        add(token)
    vectors = random.normal(size=(len(SPECIAL) + len(words), E)).astype(np.float32)
    for n in range(len(MEANINGS)):
        at = len(SPECIAL) + 2 * n
        vectors[at + 1] = vectors[at]
    one, none = np.ones(E, np.float32), np.zeros(E, np.float32)
    flat = np.zeros((E, E), np.float32)
    tensors = {"token_embd.weight": vectors, "position_embd.weight": np.zeros((CTX, E), np.float32)}
    for norm in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        tensors |= {f"{norm}.weight": one, f"{norm}.bias": none}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        tensors |= {f"blk.0.{part}.weight": flat, f"blk.0.{part}.bias": none}
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def report() -> Document:
    """A hundred pages of random words; page HIT says what something costs."""
    random = np.random.default_rng(1)
    pages = [" ".join(random.choice(FILLER, 12)) for _ in range(100)]
    pages[HIT - 1] = "the car costs nine crowns " + pages[HIT - 1]
    return Document("report.pdf", "pdf", PAGE.join(pages), 1)


def stored(path: Path, **fields: object) -> Stored:
    known = {"architecture": "bert", "quantization": "F32"} | fields
    return Stored(path.stem, (path,), 1, "own", False, **known)  # type: ignore[arg-type]


class Place:
    """An embedder with the models that a test lists, in a folder of its own."""

    def __init__(self, qapp: object, folder: Path) -> None:
        self.models: Sequence[Stored] = []
        self.folder, self.engines = folder / "vectors", 0
        self.embedder = Embedder(lambda: self.models, self.folder, self._start, qapp)  # type: ignore[arg-type]
        self.search = PartsSearch(self.embedder, self.embedder)

    def _start(self) -> LocalEngine:
        self.engines += 1
        return LocalEngine()

    def find(self, question: str, until: Until, document: Document | None = None) -> list[int]:
        """The pages that are found, the suggested ones alone."""
        self.search.start(document or report(), question, 200)
        until(lambda: not self.search.searching)
        return [self.search.found[place].first for place in self.search.chosen]


@pytest.fixture
def place(qapp: object, tmp_path: Path) -> Iterator[Place]:
    before = set(threading.enumerate())
    made = Place(qapp, tmp_path)
    yield made
    made.embedder.close()
    assert {t for t in threading.enumerate() if t.name != "job"} <= before


def read_vectors(path: Path) -> Vectors:
    """The vectors of a kept file."""
    return np.load(io.BytesIO(read_sealed(path, MAGIC)))


def test_without_a_model_words_alone_are_compared(place: Place, until: Until) -> None:
    assert place.find("automobile price", until) == []
    assert place.find("car", until) == [HIT]
    assert place.search.by == ["words"]
    assert (place.search.embedder, place.search.note, place.engines) == ("", "", 0)


def test_a_page_without_the_questions_words_is_found_by_meaning(
    place: Place, tmp_path: Path, until: Until
) -> None:
    place.models = [stored(write_embedder(tmp_path / "embedder.gguf"))]
    found = place.find("automobile price", until)
    search = place.search
    assert search.note == ""
    assert search.embedder == "embedder"
    assert HIT in found
    at = [piece.first for piece in search.found].index(HIT)
    assert search.by[at] == "meaning"
    (kept,) = place.folder.iterdir()
    vectors = read_vectors(kept)
    assert vectors.shape == (100, E)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)

    # They are read from there: page 1 is now what the other one was.
    buffer = io.BytesIO()
    np.save(buffer, np.roll(vectors, 1 - HIT, axis=0))
    write_sealed(kept, MAGIC, buffer.getvalue())
    assert 1 in place.find("automobile price", until)
    kept.write_bytes(b"no numbers")
    assert HIT in place.find("automobile money", until)
    assert read_vectors(kept).shape == (100, E)
    whole = bytearray(kept.read_bytes())
    whole[-1] ^= 1  # no wrong vector is believed
    kept.write_bytes(whole)
    assert HIT in place.find("automobile money", until)
    assert kept.read_bytes() != whole
    assert HIT in place.find("car costs", until)
    at = [piece.first for piece in search.found].index(HIT)
    assert search.by[at] == "both"
    assert place.engines == 1


def test_what_the_model_cannot_read_at_once_is_cut(
    place: Place, tmp_path: Path, until: Until
) -> None:
    place.models = [stored(write_embedder(tmp_path / "embedder.gguf"))]
    long = Document("a.txt", "text", "car costs " + " ".join(FILLER * 3), 1)
    place.find("automobile price", until, long)
    assert place.search.note == ""
    assert place.search.by[0] == "meaning"


def test_a_broken_model_leaves_what_words_find(place: Place, tmp_path: Path, until: Until) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    place.models = [stored(broken)]
    assert place.find("car", until) == [HIT]
    assert "broken.gguf" in place.search.note
    assert place.search.embedder == ""
    place.models = [stored(tmp_path / "gone.gguf")]
    assert place.find("car", until) == [HIT]
    assert place.search.note.startswith("Only by words: gone")


def test_stop_keeps_what_words_have_found(place: Place, tmp_path: Path, until: Until) -> None:
    place.models = [stored(write_embedder(tmp_path / "embedder.gguf"))]
    place.search.start(report(), "car", 200)
    until(lambda: place.search.embedding)
    place.search.stop()
    assert not place.search.searching
    assert [piece.first for piece in place.search.found] == [HIT]
    assert "Stopped" in place.search.note
    assert HIT in place.find("automobile", until)  # the model is asked again


def test_which_models_embed(tmp_path: Path) -> None:
    made = [
        stored(tmp_path / "minilm.gguf"),
        stored(tmp_path / "chat.gguf", architecture="llama"),
        stored(tmp_path / "Qwen3-Embedding-0.6B.gguf", architecture="qwen3"),
        stored(tmp_path / "Qwen3-4B.gguf", architecture="qwen3"),
        stored(tmp_path / "bad.gguf", problem="not a GGUF file"),
    ]
    assert [model.name for model in embedders(made)] == ["minilm", "Qwen3-Embedding-0.6B"]


def test_ranks() -> None:
    assert ranks([0.5, 2.0, -np.inf, 2.0]) == [3, 1, None, 2]


def test_a_weak_model_does_not_hide_what_words_have_found() -> None:
    """By the sum of ranks the first piece would be the fourth: it is the last by meaning."""
    words = [9.0, 1.1, 1.0, 0.9, 0.8, 0.0]
    meaning = [0.30, 0.36, 0.35, 0.34, 0.33, 0.31]
    made = joined_scores(words, meaning)
    assert ranks(made)[0] == 2
    assert made == pytest.approx(
        [(w / 9.0) + (m - 0.30) / 0.06 for w, m in zip(words, meaning, strict=True)], abs=1e-5
    )
    assert joined_scores([], []) == []
    assert min(joined_scores([0.0, 0.0], [0.2, 0.2])) > 0  # both are listed


def test_rerankers_embed_nothing(tmp_path: Path) -> None:
    """A BERT with a head is no embedder, though its architecture is one's."""
    from app.headers import read_header
    from tests.engine.models.text.encoders import ENCODERS
    from tests.engine.models.text.files import write
    from tests.engine.models.text.rankers import RANKERS

    made = [write(row, tmp_path) for row in (ENCODERS[0], RANKERS[0])]
    models = [stored(path, ranks=read_header(path).ranks) for path in made]
    assert [model.ranks for model in models] == [False, True]
    assert embedders(models) == models[:1]

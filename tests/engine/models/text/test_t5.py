"""T5 against llama.cpp: an encoder reads the prompt, a decoder writes."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFWriter

from engine.errors import BadFile, BadSetting, ContextFull, NotSupported, UnsupportedModel
from engine.gguf import open_gguf
from engine.gguf.formats import Q8_0
from engine.inside.token.examine import examine
from engine.kvcache.encoded import Entering
from engine.models.build import build_model
from engine.models.kept import Cells, Crossed, Encoded, make_caches
from engine.protocol import (
    ChatMessage,
    Examine,
    Examined,
    Finished,
    Generate,
    Piece,
    Sampling,
)
from engine.runner import load
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.loading import load_model
from engine.runner.pictures.items import EncodedText
from engine.runner.placing.move import move
from engine.runner.prompt import Prompt, make_prompt
from engine.runner.stepper import TEXT, Extras
from engine.settings import EngineOptions
from engine.tokenizer import ChatTemplate
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import Fault, Row
from tests.engine.models.text.test_rows import first_driver, launched, opened
from tests.engine.runner.answering.many import GREEDY, Many, asked
from tests.engine.runner.drafting.scripted import KINDS
from tests.engine.runner.drafting.scripted import answered as answers_with
from tests.engine.runner.memory import drivers, foreseen, held, two_devices
from tests.engine.tokenizer.test_pre_tokenizers import GOLDENS, TEXTS, loaded
from tests.goldens.text.direct import PROMPT
from tests.program import ROOT
from tests.truth.compare import nmse

ANSWERS = [
    Row(
        *("t5", "t5", "one bias for all layers of each part, the output tied and scaled"),
        Fault("engine/models/text/t5.py", "x.shape[0] ** -0.5", "1.0"),
        launches=61,
    ),
    Row(
        *("t5-gated", "t5", "biases of a layer's own, few buckets, an output of its own"),
        Fault("engine/layers/step.py", "n_buckets, cache is None)", "n_buckets, True)"),
        launches=54,
    ),
]
WIDTH = 64

each = pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row.name)


def wanted(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Ids [2, 96], prompts before answers, and logits [2, 49, V] behind the answers' tokens.

    llama.cpp leaves out the scale of an output that is tied.
    """
    ids, logits = golden(row)
    return ids, logits * WIDTH**-0.5 if row.name == "t5" else logits


def logits(model: Model, ids: np.ndarray, pieces: Sequence[int] = (96 - PROMPT,)) -> np.ndarray:
    """[49, V] of an answer that is read in pieces, behind its prompt."""
    return answered(model, ids[:PROMPT].tolist(), ids[PROMPT:].tolist(), pieces)


def answered(
    model: Model, prompt: list[int], answer: list[int], pieces: Sequence[int]
) -> np.ndarray:
    """[n, V] behind each token of an answer that is read in pieces."""
    stepper = model.loaded.stepper
    stepper.forget(0)
    extras = Extras(entering=(Entering(stepper.encode(prompt), 0),))
    found, at = [], 0
    for n in pieces:
        tokens = answer[at : at + n]
        found.append(stepper.step(tokens, at, range(n), extras=TEXT if at else extras).copy())
        at += n
    return np.concatenate(found)


@each
def test_on_the_host(row: Row, tmp_path: Path) -> None:
    ids, want = wanted(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        assert nmse(logits(model, ids[0]), want[0]) < 1e-10
        assert nmse(logits(model, ids[1], (1, 1, 17, 1, 29)), want[1]) < 1e-10


@pytest.mark.device
@each
def test_on_a_device(row: Row, tmp_path: Path) -> None:
    ids, want = wanted(row)
    with opened(write(row, tmp_path, Kind.F16), first_driver()) as model:
        assert nmse(logits(model, ids[0], (1, 48)), want[0]) < 1e-5


@pytest.mark.full
@pytest.mark.device
@each
def test_on_every_device(row: Row, tmp_path: Path) -> None:
    ids, want = wanted(row)
    with opened(write(row, tmp_path, rounded=Kind.Q8_0), "host", "f32") as model:
        exact = logits(model, ids[0])
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.F16), driver) as model:
            assert nmse(logits(model, ids[0]), want[0]) < 1e-5, driver
        with opened(write(row, tmp_path, Kind.Q8_0), driver) as model:
            assert nmse(logits(model, ids[0]), exact) < 1e-4, driver


@each
def test_a_token_takes_so_many_launches(row: Row, tmp_path: Path) -> None:
    told = launched(write(row, tmp_path, Kind.Q8_0))
    assert len(told) == row.launches, "\n".join(told)


@each
def test_each_has_a_fault_to_plant(row: Row) -> None:
    assert (ROOT / row.fault.file).read_text("utf-8").count(row.fault.old) == 1, row.fault


START = 0
"""What pads, as this file names no other token to begin with."""


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    """With the context of four answers at once."""
    with load(
        write(ANSWERS[1], tmp_path), device="host", kv="f32", ctx=64, parallel=4, cells=0
    ) as model:
        yield model


def by_hand(model: Model, prompt: list[int], n: int, begun: Sequence[int] = ()) -> list[int]:
    """The most likely tokens, each from a computation of all before it."""
    answer = [START, *begun]
    for _ in range(n):
        answer.append(int(answered(model, prompt, answer, (len(answer),))[-1].argmax()))
    model.loaded.stepper.forget(0)
    return answer[1 + len(begun) :]


def test_many_at_once_answer_what_each_answers_alone(model: Model) -> None:
    ids, _ = golden(ANSWERS[1])
    prompts = [ids[0, :n].tolist() for n in (48, 7, 30)] + [ids[1, :9].tolist()]
    expected = {i: by_hand(model, prompt, 12) for i, prompt in enumerate(prompts, 1)}
    many = Many(model)
    for i, prompt in enumerate(prompts, 1):
        many.ask(asked(i, prompt, 12))
        many.turn()
    many.finish()
    assert {i: many.tokens(i) for i in expected} == expected
    assert len({tuple(one) for one in expected.values()}) > 1


def test_an_answer_goes_on_from_where_it_was_begun(model: Model) -> None:
    prompt, begun = [40, 50, 60, 7], [30, 31]
    expected = by_hand(model, prompt, 6, begun)
    request = Generate(
        1, prompt_tokens=prompt, prefix_tokens=begun, sampling=GREEDY, max_tokens=6, endless=True
    )
    model.conversation.clear()
    events = list(generate(model.loaded, model.conversation, request, lambda: False))
    drawn = [info.token for one in events if isinstance(one, Piece) for info in one.tokens]
    assert drawn[-6:] == expected
    (end,) = [one for one in events if isinstance(one, Finished)]
    assert end.stats.n_prompt == len(prompt) + len(begun)


def test_another_prompt_is_never_answered_with_the_rows_of_the_last(model: Model) -> None:
    texts = ["abcabc", "xyz", "abcabc"]
    answers = ["".join(model.generate(text, max_tokens=8, sampling=GREEDY)) for text in texts]
    assert answers[0] == answers[2] != answers[1]


def test_a_full_context_goes_on_without_its_oldest_tokens(tmp_path: Path) -> None:
    with load(write(ANSWERS[1], tmp_path), device="host", kv="f32", ctx=16) as model:
        request = asked(1, [40, 50, 60], 40)
        events = list(generate(model.loaded, model.conversation, request, lambda: False))
        (end,) = [one for one in events if isinstance(one, Finished)]
        assert (end.stats.n_generated, end.stats.n_shifts > 0) == (40, True)
        full = asked(2, [40] * 17, 1, when_full="stop")
        with pytest.raises(ContextFull, match="17"):
            generate(model.loaded, model.conversation, full, lambda: False)


def test_probes_show_what_tokens_and_cells_there_are(tmp_path: Path) -> None:
    with opened(write(ANSWERS[1], tmp_path), "host", "f32") as model:
        found = model.dump("abc", "cross_q-0", "cross_k-1", "kq", steps=2)
    assert found["cross_q-0#0@0"].shape == (1, 32)
    assert found["kq#0@0"].shape[-2:] == (1, 1)
    assert found["kq#2@2"].shape[-2:] == (1, 3)
    assert not any(name.startswith("cross_k") and name.endswith("@1") for name in found)


def test_a_prompt_is_left_between_two_blocks_of_the_encoder(model: Model) -> None:
    """Nothing of it stays: the next one is answered as before."""
    expected, looks = by_hand(model, [40, 50, 60], 3), iter([False] * 3)
    request, sequence = asked(1, [40, 50, 60, 70], 3), model.conversation
    sequence.clear()
    events = list(generate(model.loaded, sequence, request, lambda: next(looks, True)))
    (end,) = [one for one in events if isinstance(one, Finished)]
    assert (end.reason, sequence.items, next(looks, None)) == ("cancelled", [], None)
    again = list(generate(model.loaded, sequence, asked(2, [40, 50, 60], 3), lambda: False))
    drawn = [info.token for one in again if isinstance(one, Piece) for info in one.tokens]
    assert drawn == expected


@pytest.mark.parametrize("kind", ["third", "right", "wrong"])
def test_drafts_change_no_answer(model: Model, kind: str) -> None:
    """Whatever is guessed, alone and in a step with others; also where the context is shifted."""
    ids, _ = golden(ANSWERS[1])
    warm = Sampling(temperature=0.8, seed=5)
    several = [asked(i, ids[i - 1, :40].tolist(), 80, sampling=warm) for i in (1, 2)]
    expected, found = answers_with(model, several), answers_with(model, several, KINDS[kind])
    assert {i: text for i, (text, *_) in found.items()} == {
        i: text for i, (text, *_) in expected.items()
    }
    assert all(end.stats.n_drafted > 0 for _, _, end in found.values())


@pytest.mark.device
def test_an_answer_goes_on_where_its_layers_move(tmp_path: Path) -> None:
    ids, want = wanted(ANSWERS[1])
    path, (one, two) = write(ANSWERS[1], tmp_path, Kind.F16), two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-2={one},out={one}")
    with closing(load_model(path, options)) as loaded:
        answered(Model(loaded), ids[0, :PROMPT].tolist(), ids[0, PROMPT:-1].tolist(), (48,))
        move(loaded, replace(options, place=f"0={one},1-2={two},out={two}"))
        assert foreseen(loaded.dry) == held(loaded.dry)
        (last,) = loaded.stepper.step(ids[0, -1:].tolist(), 48, [0])
        assert nmse(last, want[0, -1]) < 1e-5


def test_a_token_is_examined_behind_its_prompt(model: Model) -> None:
    """As it was answered; where heads look is not shown, as their bias is no part of it."""
    prompt, begun = "abcabc", [30, 31]
    ids = model.loaded.tokenizer.encode(prompt)
    (wanted,) = by_hand(model, ids, 1, begun)
    request = Examine(1, prompt=prompt, prefix_tokens=[*begun, 40], at=3, sampling=GREEDY)
    *_, found = examine(model.loaded, model.conversation, request, lambda: False)
    assert isinstance(found, Examined)
    assert found.choice is not None
    assert found.choice.top[0].token == wanted
    heads = Examine(1, prompt=prompt, prefix_tokens=begun, at=1, attention_layers=[0])
    with pytest.raises(NotSupported, match="learned bias"):
        list(examine(model.loaded, model.conversation, heads, lambda: False))


def test_other_texts_are_refused(model: Model) -> None:
    with pytest.raises(NotSupported, match="only answers prompts"):
        next(model.logits([1, 2, 3]))
    with pytest.raises(UnsupportedModel, match="embeddings"):
        model.embed(["abc"])


@pytest.mark.device
def test_memory_is_what_was_foreseen_on_two_devices(tmp_path: Path) -> None:
    """With the longest prompt that fits, too; each layer's caches are where the layer is."""
    ids, want = wanted(ANSWERS[1])
    path, (one, two) = write(ANSWERS[1], tmp_path, Kind.F16), two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=300, place=f"0={one},1-2={two},out={one}")
    with closing(load_model(path, options)) as loaded:
        assert foreseen(loaded.dry) == held(loaded.dry)
        caches = {(device, i): n for (device, c, i), n in held(loaded.dry).items() if c == "cache"}
        cells, rows = 512, 2 * 300 + 168  # of halves, in steps of 256
        assert caches == dict.fromkeys([(one, 0), (two, 1), (two, 2)], 32 * 2 * 2 * (cells + rows))
        model = Model(loaded)
        assert nmse(logits(model, ids[0], (1, 48)), want[0]) < 1e-5
        answered(model, [7] * 300, [START, 8, 9], (1, 2))
        assert foreseen(loaded.dry) == held(loaded.dry)


def test_a_learned_bias_reads_no_quantised_cache() -> None:
    layer = Crossed(Cells(64, 64, 2, None), Encoded(64, 64, 2, 300))
    with pytest.raises(BadSetting, match="f16 or f32: scores with a learned bias"):
        make_caches([layer], 300, 512, Q8_0)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"decoder_block_count\4\0\0\0\3", b"decoder_block_count\4\0\0\0\2", "other numbers"),
        (b"start_token_id\4\0\0\0\5", b"start_token_id\4\0\0\0\x60", "token_id 96"),
        (b"dec.blk.0.attn_rel_b", b"dec.blk.1.attn_rel_b", "attn_rel_b.* in layer 0"),
    ],
    ids=["layers", "start", "bias"],
)
def test_what_does_not_fit_is_refused(old: bytes, new: bytes, problem: str, tmp_path: Path) -> None:
    path = write(ANSWERS[0], tmp_path)
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    with pytest.raises(BadFile, match=problem), open_gguf(path) as file:
        build_model(file, None, 16)


@pytest.mark.parametrize("n", [1, 4])
def test_an_encoder_of_another_number_of_blocks_is_refused(n: int, tmp_path: Path) -> None:
    """Its blocks are counted, not those of the decoder alone."""
    reader = GGUFReader(write(ANSWERS[1], tmp_path))
    writer = GGUFWriter(tmp_path / "other.gguf", "t5")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    block = {name: tensors[name] for name in tensors if name.startswith("enc.blk.2.")}
    if n > 3:
        tensors |= {name.replace("2", "3", 1): values for name, values in block.items()}
    for name, values in tensors.items():
        if not name.startswith("enc.") or "blk" not in name or int(name.split(".")[2]) < n:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    problem = f"block_count is 3, the tensors make {n} blocks"
    with open_gguf(tmp_path / "other.gguf") as file, pytest.raises(BadFile, match=problem):
        build_model(file, None, 16)


def prompted(request: Generate, n_ctx: int) -> tuple[EncodedText, Prompt]:
    """What the encoder reads of a request, by T5's kind of tokenizer; and the whole prompt."""
    tokenizer = loaded("t5", remove_extra_whitespaces=True)
    prompt = make_prompt(tokenizer, ChatTemplate("none"), request, n_ctx, None, START)
    assert isinstance(prompt.items[0], EncodedText)
    return prompt.items[0], prompt


def test_the_encoder_reads_what_llama_cpp_has_it_read() -> None:
    """With the token that ends it; of a chat the last message, behind the system's text."""
    for text, ids in zip(TEXTS, GOLDENS["t5"]["cases"]["True"]["ids"], strict=True):
        if text and "<" not in text:  # nor a token's own text
            read, prompt = prompted(Generate(1, prompt=text), 1 << 12)
            assert (read, prompt.keep) == (EncodedText(START, tuple(ids)), 1)
    said = (("system", "be brief"), ("user", "hello"), ("assistant", "hi"), ("user", "bye"))
    turns = [ChatMessage(role, text) for role, text in said]
    whole, _ = prompted(Generate(1, messages=turns), 64)
    assert whole == prompted(Generate(1, prompt="be brief\n\nbye"), 64)[0]


def test_a_prompt_that_is_too_long_loses_its_middle_and_not_its_end() -> None:
    request = Generate(1, prompt="hello " * 40)
    whole, _ = prompted(request, 1 << 12)
    for when in ("shift", "middle"):
        read, prompt = prompted(msgspec.structs.replace(request, when_full=when), 16)
        assert (len(read.text), prompt.n_truncated) == (16, len(whole.text) - 16)
        assert read.text[-1] == whole.text[-1] == 2

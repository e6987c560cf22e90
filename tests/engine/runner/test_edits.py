"""Edits of results: each operation at each site against torch's hooks, and many at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadSetting, NotSupported
from engine.models.build import StepShape
from engine.protocol import Edit, EditsRevised, Generate, Piece, ReviseEdits, Sampling
from engine.runner.answering.answer import RunningAnswer
from engine.runner.edits import ALL, PLAIN, SequenceEdits, common, edits_for
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.runner.stepper import TEXT, StepPart
from engine.settings import EngineOptions
from engine.tokenizer.words import no_pause
from tests.goldens.make_edits import LAYER, N_HEADS, N_TOKENS, ROWS, vectors
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.kernels.harness import nmse

WANTED = Path(__file__).parents[2] / "goldens" / "edits.npz"
HOST = EngineOptions(device="host", kv="f32", ctx=64)
DEVICES = ["host", pytest.param("intel:0", marks=pytest.mark.device)]
E = 64


@cache
def wanted() -> dict[str, np.ndarray]:
    with np.load(WANTED) as file:
        return dict(file)


def edit_named(site: str, op: str, width: int) -> Edit:
    """What the golden's hook does."""
    d, e = vectors(width)
    made = {
        "set": Edit.of("set", site, LAYER, 0.5, d),
        "constant": Edit.of("set", site, LAYER, -0.75),
        "add": Edit.of("add", site, LAYER, 1.5, d),
        "scale": Edit.of("scale", site, LAYER, 0.5),
        "project": Edit.of("project", site, LAYER, 0.8, d),
        "hold": Edit.of("hold", site, LAYER, 2.0, d),
        "swap": Edit.of("swap", site, LAYER, 1.0, d, e),
        "channels": Edit.of("swap", site, LAYER, channels=(3, 40)),
        "head": Edit.of("scale", site, LAYER, 0.25, head=2),
        "delta": Edit.of("scale", site, LAYER, 0.5, delta=True),
    }
    return made[op]


def logits(model: LoadedModel, tokens: Sequence[int], edits: SequenceEdits) -> np.ndarray:
    """After every token, the last of which is a step of its own."""
    sequence = Sequenced(model.stepper)
    sequence.reuse((), edits=edits)
    rows = sequence.begin_all(tokens[:-1], TEXT)()
    rows = np.vstack([rows, sequence.append(tokens[-1])])
    sequence.clear()
    return rows


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_every_operation_at_every_site_is_what_hooks_of_torch_do(
    name: str, device: str, tmp_path: Path
) -> None:
    """A device rounds activations to 12 bits, as it does without edits."""
    path = write_tiny(tmp_path / "tiny.gguf", name)
    tokens = tiny_tokens(name)[:N_TOKENS].tolist()
    options = EngineOptions(device=device, kv="f32", ctx=64)
    most, errors = 1e-6 if device == "host" else 1e-5, {}
    with closing(load_model(path, options)) as model:
        heads = model.built.results.at("heads", LAYER)[0]
        assert heads.heads == N_HEADS
        for key, rows in wanted().items():
            of, site, op = key.split()
            if of == name:
                edit = edit_named(site, op, heads.width if site == "heads" else E)
                got = logits(model, tokens, edits_for(model.built, [edit], N_TOKENS))
                errors[key] = nmse(got[-ROWS:], rows)
    assert len(errors) == 34
    assert max(errors.values()) < most, errors


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    path = write_tiny(tmp_path_factory.mktemp("edits") / "tiny.gguf", "llama")
    options = EngineOptions(device="host", kv="f32", ctx=64, parallel=8, cells=512)
    with closing(load_model(path, options)) as opened:
        yield opened


TOKENS = tiny_tokens("llama").tolist()


def test_without_edits_nothing_is_hooked(model: LoadedModel) -> None:
    """Neither in a plain step nor in one whose edits are of other positions."""
    built, plain = model.built, logits(model, TOKENS[:9], PLAIN)
    shape = StepShape(4, 1, built.buckets([0]))
    assert built.build(shape)[1].text() == built.build(shape)[1].text()
    later = edits_for(built, [Edit.of("scale", "residual", 1, 0.0, positions="20:")], 9)
    np.testing.assert_array_equal(logits(model, TOKENS[:9], later), plain)
    assert not model.stepper.planner.edited


def test_ten_values_are_one_plan(model: LoadedModel) -> None:
    planner, rng = model.stepper.planner, np.random.default_rng(0)
    planner.edited.clear()
    rows = []
    for value in range(10):
        edits = [
            Edit.of("add", "residual", [0, 1], value, rng.standard_normal(E)),
            Edit.of("scale", "heads", 2, value / 3, head=value % 4),
        ]
        rows.append(logits(model, TOKENS[:9], edits_for(model.built, edits, 9)))
    assert len(planner.edited) == 2  # one for eight tokens, one for a single one
    assert all(not np.array_equal(rows[0], one) for one in rows[1:])


def test_eight_sequences_with_their_own_edits_are_eight_single_runs(model: LoadedModel) -> None:
    """Two of them have none: their logits are those of the same plan with nothing to do."""
    rng = np.random.default_rng(1)
    d, e = rng.standard_normal((2, E))
    each = [
        [Edit.of("add", "residual", [0, 1, 2], 2.0, d)],
        [],
        [Edit.of("scale", "heads", 1, 0.0, head=3, positions="2:4")],
        [Edit.of("project", "attention", [0, 2], 1.0, e, positions="last")],
        [Edit.of("scale", "residual", 1, 0.0, delta=True)],
        [],
        [Edit.of("set", "ffn_swiglu", 1, -1.0, channels=(5, 9)), Edit.of("scale", "embd", [], 1.1)],
        [Edit.of("hold", "feed_forward", 2, 3.0, d), Edit.of("swap", "residual", 0, 1.0, d, e)],
    ]
    texts = [TOKENS[i : i + 5 + i % 3] for i in range(8)]
    made = [edits_for(model.built, one, len(t)) for one, t in zip(each, texts, strict=True)]
    single = [logits(model, t, one) for t, one in zip(texts, made, strict=True)]
    stepper = model.stepper
    parts = [
        StepPart(t, 0, range(len(t)), n, one)
        for n, (t, one) in enumerate(zip(texts, made, strict=True))
    ]
    together = stepper.start_together(parts)()
    ends = np.cumsum([len(t) for t in texts])
    for n, rows in enumerate(np.split(together, ends[:-1])):
        assert nmse(rows, single[n]) < 1e-6, n
    for n in range(8):
        stepper.forget(0, sequence=n)
    nothing = [
        Edit.of("add", one.site, one.layers, 0.0, delta=one.delta) for e in each for one in e
    ]
    hooked = edits_for(model.built, nothing, 5)
    off = stepper.start_together(
        [part._replace(edits=hooked if part.edits else PLAIN) for part in parts]
    )()
    for n in range(8):
        stepper.forget(0, sequence=n)
    for n in (1, 5):
        begin = ends[n] - len(texts[n])
        np.testing.assert_array_equal(off[begin : ends[n]], together[begin : ends[n]])


@pytest.mark.parametrize(
    ("positions", "edited"),
    [
        ("all", range(9)),
        ("prompt", range(6)),
        ("answer", range(6, 9)),
        ("last", [5]),
        ("3", [3]),
        ("2:4", [2, 3]),
        (":2", [0, 1]),
        ("7:", [7, 8]),
        ("-2", [4]),
    ],
)
def test_positions(positions: str, edited: Sequence[int], model: LoadedModel) -> None:
    """Of a prompt of six and three tokens after it; in the last layer no other token's result
    depends on an edited one.
    """
    plain = logits(model, TOKENS[:9], PLAIN)
    last = model.built.n_layer - 1
    edit = Edit.of("scale", "residual", last, 0.3, positions=positions, channels=(0, 9))
    made = edits_for(model.built, [edit], 6)
    rows = logits(model, TOKENS[:9], made)
    differ = [i for i in range(9) if not np.array_equal(rows[i], plain[i])]
    assert differ == list(edited)
    assert made.first == differ[0]


def test_of_the_last_layer_a_step_has_its_outputs_alone(model: LoadedModel) -> None:
    """An edit of the last token finds its row, one of another token changes nothing."""
    last, rows = model.built.n_layer - 1, []
    for positions in ("last", "0"):
        edit = Edit.of("scale", "feed_forward", last, 0.3, positions=positions)
        edits = edits_for(model.built, [edit], 7)
        sequence = Sequenced(model.stepper)
        sequence.reuse((), edits=edits)
        step = sequence.begin(TOKENS[:7], TEXT)
        rows.append((step(), logits(model, TOKENS[:7], edits)[-1]))
        sequence.clear()
    for alone, among_all in rows:
        assert nmse(alone, among_all) < 1e-10
    assert nmse(rows[0][0], rows[1][0]) > 1e-6
    np.testing.assert_allclose(rows[1][0], logits(model, TOKENS[:7], PLAIN)[-1], atol=1e-4)


def test_cells_are_shared_up_to_the_first_edit(model: LoadedModel) -> None:
    def made(value: float, positions: str) -> SequenceEdits:
        return edits_for(
            model.built, [Edit.of("scale", "residual", 1, value, positions=positions)], 6
        )

    answer, everywhere, place = made(0.5, "answer"), made(0.5, "all"), made(0.5, "4")
    assert common(9, PLAIN, PLAIN) == 9
    assert common(9, everywhere, made(0.5, "all")) == 9
    assert common(9, everywhere, made(0.6, "all")) == 0
    assert common(9, answer, PLAIN) == common(9, made(0.6, "answer"), answer) == 6
    assert common(9, place, answer) == 4
    sequence = Sequenced(model.stepper)
    sequence.reuse((), edits=answer)
    for _ in sequence.prefill(TOKENS[:9], lambda: False):
        pass
    assert sequence.shared(TOKENS[:9], PLAIN) == 6
    assert sequence.shared(TOKENS[:9], answer) == 8
    assert sequence.reuse(TOKENS[:9], edits=place) == 4
    assert sequence.edits is place
    sequence.clear()
    assert sequence.edits is PLAIN


def test_positions_count_on_after_a_shift(model: LoadedModel) -> None:
    """What follows a shift is the answer, though its index is the prompt's."""
    made = edits_for(model.built, [Edit.of("scale", "residual", 1, 0.5, positions="30:")], 6)
    sequence = Sequenced(model.stepper)
    sequence.reuse((), edits=made)
    text = (TOKENS * 2)[: sequence.n_ctx]
    for _ in sequence.prefill(text, lambda: False):
        pass
    sequence.shift(4, lambda: False)
    n = len(sequence.items)
    assert n < 30 + 6
    assert sequence.edits.positions(n, 1) == [len(text)]
    assert sequence.edits.positions(3, 2) == [3, 4 + len(text) - n]
    assert common(9, sequence.edits, made) == 4
    everywhere = edits_for(model.built, [Edit.of("scale", "residual", 1, 0.5)], 6)
    assert everywhere.shifted(4, 30) is everywhere
    assert SequenceEdits().first == ALL
    sequence.clear()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Edit("l_outt", [1], "scale"), r"edits\[0\].site: 'l_outt' .* near: l_out"),
        (Edit("residual", [3], "scale"), r"edits\[0\].layers: 3 .* layers 0 to 2, which have it"),
        (Edit("residual", [], "scale"), r"layers: \[\] .* at least one of 0 to 2"),
        (Edit("embd", [1], "scale"), "none: embd belongs to no layer"),
        (Edit("heads", [1], "scale", head=4), "edits.0..head: 4 .* a head from 0 to 3"),
        (Edit("ffn_up", [1], "scale", head=0), "head: 0 .* ffn_up has no heads here"),
        (Edit("residual", [1], "scale", channels=(9, 65)), r"channels: \[9, 65\] .* 0 to 64"),
        (Edit("residual", [1], "swap", channels=(9, 64)), "two channels from 0 to 63"),
        (Edit("residual", [1], "swap"), "channels: None .* two channels, or two vectors"),
        (Edit("residual", [1], "scale", expert=1), "expert: 1 .* only ffn_moe_down"),
        (Edit("residual", [1], "scale", occurrence=1), "occurrence: 1 .* 0 to 0"),
        (Edit("residual", [1], "scale", positions="x"), "positions: 'x' .* A:B"),
        (Edit("residual", [1], "scale", value=float("nan")), "value: nan .* finite"),
        (Edit("residual", [1], "scale", value=1e39), "value: 1e.39 .* finite"),
        (Edit("attention", [1], "scale", delta=True), "delta: True .* residual"),
        (Edit("residual", [1], "project"), "vector: 'no direction'"),
        (Edit.add("residual", 1, np.zeros(63)), "vector: '63 numbers' .* 64 numbers"),
        (Edit("residual", [1], "add", vector=b"abc"), "vector: '0.75 numbers' .* 64 numbers"),
        (Edit.add("residual", 1, np.full(E, np.inf)), "number 0 is inf"),
        (Edit.of("hold", "residual", 1, 1.0, np.zeros(E)), "a vector that is not zero"),
        (Edit.of("swap", "residual", 1, 1.0, np.ones(E), -np.ones(E)), "another direction"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_edited_is_named(edit: Edit, said: str, model: LoadedModel) -> None:
    with pytest.raises(BadSetting, match=said):
        edits_for(model.built, [edit], 6)


def test_too_many_are_refused(model: LoadedModel) -> None:
    one = Edit("residual", [0, 1, 2] * 100, "scale")
    with pytest.raises(BadSetting, match="edits: '257 edits' .* at most 256"):
        edits_for(model.built, [one] * 257, 6)
    with pytest.raises(BadSetting, match="1200 edited results.* at most 1024"):
        edits_for(model.built, [one] * 4, 6)


def test_experts(tmp_path: Path) -> None:
    """An expert that is never chosen, or chosen and silent; ids are no numbers to edit."""
    from tests.engine.models.text.files import golden, write
    from tests.engine.models.text.rows import ROWS as TABLE

    row = TABLE["mixtral"]
    tokens = golden(row)[0][0][:12].tolist()
    with closing(load_model(write(row, tmp_path), HOST)) as model:
        built, stepper = model.built, model.stepper
        down, routed = (
            built.results.at("ffn_moe_down", 1)[0],
            built.results.at("ffn_moe_logits", 1)[0],
        )
        assert (down.slots, routed.width) == (2, 6)

        def found(edits: list[Edit]) -> dict[str, np.ndarray]:
            from engine.scheduler.probes import Probes

            part = StepPart(tokens, 0, range(12), edits=edits_for(built, edits, 12))
            step = stepper.start_together([part], probes=Probes((r"ffn_moe_.*-1",)))
            step()
            values = {one.key.name: one.values.copy() for one in step.probed()}
            stepper.end_probes()
            stepper.forget(0)
            return values

        plain = found([])
        chosen = plain["ffn_moe_topk-1"]
        expert = int(chosen[3, 0])
        never = found([Edit.of("set", "ffn_moe_logits", 1, -1e30, channels=(expert, expert + 1))])
        assert expert in chosen
        assert expert not in never["ffn_moe_topk-1"]
        silent = found([Edit.of("scale", "ffn_moe_down", 1, 0.0, expert=expert)])
        np.testing.assert_array_equal(silent["ffn_moe_topk-1"], chosen)
        rows = silent["ffn_moe_down_edited-1"].reshape(12, 2, -1)
        before = plain["ffn_moe_down-1"].reshape(12, 2, -1)
        np.testing.assert_array_equal(rows, np.where((chosen == expert)[..., None], 0, before))
        with pytest.raises(NotSupported, match="editing ffn_moe_topk-1 .its type is I32"):
            edits_for(built, [Edit("ffn_moe_topk", [1], "scale")], 6)
        with pytest.raises(BadSetting, match="an expert from 0 to 5"):
            edits_for(built, [Edit("ffn_moe_down", [1], "scale", expert=6)], 6)


def answered(
    model: LoadedModel, request: Generate, revisions: Mapping[int, ReviseEdits]
) -> tuple[list[int], list[EditsRevised]]:
    """The tokens of an answer that gets these revisions once it has so many, and what it says."""
    wanted: list[ReviseEdits | None] = [None]
    stop, watching, pause = (lambda: False), None, no_pause
    answer = RunningAnswer(model, request, stop, watching, pause, lambda: wanted[-1])
    list(answer.enter(Sequenced(model.stepper)))
    tokens: list[int] = []
    told: list[EditsRevised] = []
    while answer.reason is None:
        wanted.append(revisions.get(len(tokens), wanted[-1]))
        for reply in answer.step():
            if isinstance(reply, EditsRevised):
                told.append(reply)
            elif isinstance(reply, Piece):
                tokens += [info.token for info in reply.tokens]
    answer.sequence.clear()
    return tokens, told


def test_values_change_while_an_answer_is_written(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each value had been asked for at its positions from the start, and nothing is built."""
    kind, builds = type(model.built), [0]
    build = kind.build

    def counted(*args: object, **fields: object) -> object:
        builds[0] += 1
        return build(*args, **fields)

    monkeypatch.setattr(kind, "build", counted)
    direction = np.linspace(-1, 1, E, dtype=np.float32)

    def steer(by: float, positions: str = "all") -> Edit:
        return Edit.add("residual", 1, direction, by, positions)

    def ask(*edits: Edit) -> Generate:
        greedy = Sampling(temperature=0.0)
        return Generate(
            7, prompt_tokens=TOKENS[:5], sampling=greedy, max_tokens=12, endless=True,
            edits=list(edits),
        )  # fmt: skip

    revisions = {4: ReviseEdits(7, [steer(-60.0)], 1), 8: ReviseEdits(7, [steer(25.0)], 2)}
    answered(model, ask(steer(9.0)), {})
    built = builds[0]
    tokens, told = answered(model, ask(steer(9.0)), revisions)
    assert builds[0] == built > 0
    assert [(one.number, one.n_prompt, one.problem) for one in told] == [(1, 5, ""), (2, 5, "")]
    first, second = (one.position for one in told)
    parts = (steer(9.0, f"0:{first}"), steer(-60.0, f"{first}:{second}"), steer(25.0, f"{second}:"))
    assert tokens == answered(model, ask(*parts), {})[0]
    plain = answered(model, ask(steer(9.0)), {})[0]
    assert tokens[: first - 5] == plain[: first - 5]
    assert tokens != plain


def test_other_places_are_refused_while_an_answer_is_written(model: LoadedModel) -> None:
    edit = Edit.scale("residual", 1, by=0.5)
    request = Generate(
        7, prompt_tokens=TOKENS[:5], sampling=Sampling(temperature=0.0), max_tokens=6,
        endless=True, edits=[edit],
    )  # fmt: skip
    plain = answered(model, request, {})[0]
    for other in (Edit.scale("residual", 0, by=0.5), Edit.scale("residual", 99, by=0.5)):
        tokens, told = answered(model, request, {2: ReviseEdits(7, [other], 1)})
        assert tokens == plain
        assert len(told) == 1
        assert told[0].problem

"""The window with edits: their bar, the answers with and without, the sheets that make edits."""

from math import log
from pathlib import Path
from tempfile import gettempdir

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.state.lab.steering import SteeringVector
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import ChatEdit
from app.window.main_window import MainWindow
from engine.protocol import (
    ActiveFeature,
    AnswerScored,
    Edit,
    Estimate,
    FindFeatures,
    LayerDrift,
    MapPatches,
    MeasureQuality,
    PatchTable,
    Progress,
    QualityEstimates,
    RecordDataset,
    ScoreAnswer,
    TensorLoss,
)
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until

PATH = Path("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
PLAIN = ("The ", "capital ", "of ", "France ", "is ", "Paris", ", ", "on ", "the ", "Seine", ".")
TRIED = ("The ", "capital ", "of ", "France ", "is ", "a ", "city ", "of ", "the ", "French", ".")
DRAWN = ("The ", "capital ", "of ", "France ", "is ", "Paris", " and ", "its ", "river", ".")
LIKELY = (0.97, 0.93, 0.99, 0.98, 0.9, 0.02, 0.71, 0.31, 0.64, 0.12, 0.5)
ROWS = {i: np.linspace(-1, 1, 576, dtype=np.float32) for i in range(1, 30)}


def client(window: MainWindow) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def with_edits(window: MainWindow) -> None:
    """A question was answered; a layer is switched off for the next one, and it is steered."""
    window.bench.open_model(PATH)
    client(window).say(memory("planned"), memory("allocated"))
    client(window).load_done()
    assert window.bench.chat.send("What is the capital of France?")
    client(window).write(*PLAIN)
    client(window).end()
    window.bench.selection.select_layer(12)
    window.bench.verbs.switch_off()
    hash, data = pack(ROWS)
    steer = ChatEdit(Edit("residual", list(ROWS), "add", value=1.5), hash, "formal")
    window.bench.chat.edits.add(steer, {hash: data})


def edit_form(window: MainWindow) -> None:
    """The values of an edit."""
    with_edits(window)
    window.talk.composer.edits.open_form(1)


def trial_form(window: MainWindow) -> None:
    """Before anything was compared."""
    with_edits(window)
    window.sheets.show_trial()


def trial(window: MainWindow) -> None:
    """Each answer is scored by the other model."""
    trial_form(window)
    assert window.bench.trial.start()
    client(window).write(*TRIED)
    client(window).end()
    score(window)
    window.sheets.trial.edited.text.setFocus()
    QTest.qWait(20)


def control(window: MainWindow) -> None:
    """With a random control beside them."""
    trial(window)
    assert window.bench.trial.start_control(9)
    client(window).write(*DRAWN)
    client(window).end()
    score(window)
    QTest.qWait(20)


def score(window: MainWindow) -> None:
    """The engine says how likely it finds each answer."""
    for request in [r for r in client(window).asked if isinstance(r, ScoreAnswer)]:
        if client(window).waits_for(request.id):
            told = np.array([log(p) for p in LIKELY[: len(request.tokens)]], "<f4").tobytes()
            client(window).say(AnswerScored(request.id, told))


def steering(window: MainWindow) -> None:
    """A vector was made of texts."""
    with_edits(window)
    window.bench.steering.vector = SteeringVector("formal", ROWS)
    window.sheets.show_steering()
    window.sheets.steer.positive.field.setPlainText("Dear Sir or Madam\nI remain yours")
    window.sheets.steer.negative.field.setPlainText("hey you\nsee ya")


def taking(window: MainWindow) -> None:
    """Another answer of the chat can be taken from."""
    with_edits(window)
    assert window.bench.chat.send("And of Italy?")
    client(window).write("Rome", ".")
    client(window).end()
    window.sheets.show_taking()


def patched(window: MainWindow) -> None:
    """A patching map was computed."""
    with_edits(window)
    tokens = ["The", " capital", " of", " Italy", " is"]
    effects = np.zeros((30, 5), "<f4")
    effects[:15, 3] = np.linspace(1, 0.2, 15)
    effects[15:, 4] = np.linspace(0.2, 1, 15)
    effects[5:9, 2] = -0.3
    table = PatchTable("residual", effects.tobytes(), effects.tobytes())
    window.sheets.show_runs()
    window.sheets.runs.begin.click()
    client(window).answer(
        MapPatches, "SmolLM2", "intel:0", "residual", "denoising", "logit-diff", tokens, tokens,
        (1, " Paris"), (2, " Rome"), 4.0, -3.0, list(range(30)), list(range(5)), [table],
        [(i, i) for i in range(5)], [],
    )  # fmt: skip
    QTest.qWait(20)


def causes(window: MainWindow) -> None:
    """The map of a word of the answer was computed: its question against another one."""
    with_edits(window)
    window.bench.chat.edits.clear()
    window.bench.selection.select_token(window.bench.chat.path[1].id, 5)
    window.commands.run("edits.causes")
    form = window.sheets.runs.map_form
    QTest.keyClicks(form.corrupt, "What is the capital of Italy?")
    window.sheets.runs.begin.click()
    tokens = ["<|im_start|>", "user", "\n", "What", " is", " the", " capital", " of", " Italy"]
    tokens += ["?", "<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]
    tokens += PLAIN[:5]
    effects = np.zeros((30, len(tokens)), "<f4")
    effects[:15, 8] = np.linspace(1, 0.2, 15)
    effects[15:, -1] = np.linspace(0.2, 1, 15)
    table = PatchTable("residual", effects.tobytes(), effects.tobytes())
    pairs = [(i, i) for i in range(len(tokens))]
    client(window).answer(
        MapPatches, "SmolLM2", "intel:0", "residual", "denoising", "logit-diff", tokens, tokens,
        (1, "Paris"), (2, "Rome"), 4.0, -3.0, list(range(30)), list(range(len(tokens))), [table],
        pairs, [],
    )  # fmt: skip
    QTest.qWait(20)


def measuring(window: MainWindow, folder: Path | None = None) -> None:
    """The quality of a file is being measured."""
    with_edits(window)
    text = (folder or Path(gettempdir())) / "scene.txt"
    text.write_text("A text of one's own.\n")
    window.sheets.show_runs()
    view = window.sheets.runs
    view.kind.setFocus()
    QTest.keyClick(view.kind, Qt.Key.Key_Down)
    form = view.quality_form
    form.path.set_text("/models/Q4_1.gguf")
    form.base.set_text("/models/F16.gguf")
    form.text.set_text(str(text))
    for box in (form.drift, form.guilty):
        QTest.keyClick(box, Qt.Key.Key_Space)
    until(lambda: form.is_ready)
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    asked = client(window).last_of(MeasureQuality)
    client(window).say(Progress(asked.id, "score", 3, 8, 0.0131))
    QTest.qWait(20)


def measured(window: MainWindow, name: str = "SmolLM2 Q4_1", kld: float | None = 0.0126) -> None:
    """The quality was measured; `kld` is that with all tensors swapped, None without a search."""
    if not any(isinstance(one, MeasureQuality) for one in client(window).asked):
        measuring(window)
    ppl, mean = Estimate(14.231, 0.21), Estimate(0.012512, 0.0004)
    estimates = QualityEstimates(
        2040, ppl, Estimate(14.02, 0.2), Estimate(0.015, 0.002), Estimate(1.0151, 0.002),
        mean, 1.3, {"50": 0.004}, Estimate(0.9531, 0.0065), Estimate(0.0, 0.0),
        Estimate(0.03, 0.001), {},
    )  # fmt: skip
    drift = [LayerDrift(i, 1e-4 * (i + 1), 0.999, 2e-4 * (i + 1), 0.998) for i in range(30)]
    tensors = [
        TensorLoss("blk.5.ffn_down.weight", "Q4_1", 2 << 20, 4e-3, 6e-3, 0.0031, 0.0098, 0.001),
        TensorLoss("blk.9.attn_q.weight", "Q4_1", 1 << 20, 3e-3, 2e-3),
    ]
    client(window).answer(
        MeasureQuality, name, "SmolLM2 F16", "intel:0", 8, 512, False, estimates, drift,
        tensors, kld,
    )  # fmt: skip
    client(window).load_done()  # the model that was closed meanwhile: its bar would never rest
    QTest.qWait(20)


def recorded(window: MainWindow) -> None:
    """Texts were recorded."""
    with_edits(window)
    window.sheets.show_runs()
    view = window.sheets.runs
    view.kind.setFocus()
    for _ in range(2):
        QTest.keyClick(view.kind, Qt.Key.Key_Down)
    form = view.record_form
    form.paths.set_text("/texts/a.txt; /texts/b.txt")
    form.out.set_text("/tmp/out")
    QTest.keyClick(form.kinds["imatrix"], Qt.Key.Key_Space)
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    files = ["norms.npz", "imatrix.gguf"]
    client(window).answer(RecordDataset, "SmolLM2", "intel:0", 3, 2048, 0, files, {}, [])
    QTest.qWait(20)


def featured(window: MainWindow) -> None:
    """The features of a text were found."""
    with_edits(window)
    window.sheets.show_runs()
    view = window.sheets.runs
    view.kind.setFocus()
    for _ in range(3):
        QTest.keyClick(view.kind, Qt.Key.Key_Down)
    view.features_form.sae.set_text("/saes/layer-12")
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    tokens = ["The", " capital", " of", " France", " is"]
    features = [
        [ActiveFeature(100 * at + i, 9.0 - i + at / 2) for i in range(6)]
        for at in range(len(tokens))
    ]
    names = {300: "names of countries", 400: "the beginning of an answer"}
    client(window).answer(
        FindFeatures, "SmolLM2", "intel:0", "jumprelu", "residual-12", 16384, tokens, features,
        38.4, 0.83, names, [], "/saes/layer-12",
    )  # fmt: skip
    QTest.qWait(20)


SCENES = (
    *(with_edits, edit_form, trial_form, trial, control, steering, taking, patched, causes),
    *(measuring, measured, recorded, featured),
)

"""Numbers of the real model in the window: live while it answers, and of one word afterwards."""

import numpy as np
import pytest

from app.views.tensors.tensors import TensorsView
from engine.gguf import open_gguf
from engine.protocol import Sampling
from tests.app.end_to_end.person import Person

pytestmark = [pytest.mark.model_file, pytest.mark.device]


def test_live_probes_and_the_results_of_a_word_agree(person: Person) -> None:
    bench, tensors, probes = person.bench, person.bench.tensors, person.bench.probes
    person.window.panes.show_tab("tensors")
    view = person.window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(1)
    person.click(view.probes.switch)
    bench.chat.details.set_sampling(Sampling(temperature=0))
    assert bench.chat.send("What is the capital of France?")
    person.wait(lambda: not bench.chat.busy)
    tokens = bench.chat.tokens(1)
    assert probes.rows == [f"l_out-{i}" for i in range(30)]
    assert len(probes.columns) == len(tokens)  # each was read, but for what ended the answer
    probes.unpin()

    view.kinds.setCurrentIndex(0)
    person.wait(lambda: tensors.ready and any(i.result for g in tensors.groups for i in g.items))
    items = {i.name: i for g in tensors.groups for i in g.items}
    word = len(tokens) - 1
    bench.selection.select_token(bench.chat.path[1].id, word)
    tensors.choose(items["l_out-12"])
    person.wait(lambda: tensors.numbers is not None)
    assert tensors.numbers is not None
    values = tensors.numbers.read(range(1), range(576)).astype(np.float64)
    column = probes.columns[word - 1]  # the word was made by the step that read the one before
    assert np.sqrt((values**2).mean()) == pytest.approx(column.rms[12], rel=1e-2)
    assert np.abs(values).argmax() == column.at[12]

    tensors.choose(items["blk.12.attn_q.weight"])
    assert tensors.numbers is not None
    with open_gguf(str(bench.session.path)) as file:
        weight = file.array("blk.12.attn_q.weight")
    read = tensors.numbers.read(range(576), range(576))
    np.testing.assert_array_equal(read, weight)

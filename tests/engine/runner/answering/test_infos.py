"""How likely a prompt's tokens are, against the logits of each position."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadSetting
from engine.protocol import Piece
from engine.runner.api import Model, load
from engine.runner.stepper import Stepper
from tests.engine.runner.answering.many import Many, asked
from tests.goldens.tiny import Draws

IDS = Draws(31).ids(60).tolist()


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", kv="f32", ctx=128, parallel=3, cells=0) as model:
        yield model


def test_the_prompts_tokens_come_first_with_their_probabilities(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of seven, beside others that share its beginning, which is read again for them."""
    ((_, rows),) = model.logits(IDS)
    logp = rows.astype(np.float64)
    logp -= np.log(np.exp(logp).sum(1, keepdims=True))
    many = Many(model)
    many.ask(asked(1, IDS[:50], 4))
    many.turn()
    monkeypatch.setattr(Stepper, "most_outputs", 7)
    many.ask(asked(2, IDS, 3, prompt_logprobs=2))
    many.ask(asked(3, IDS[:20], 0, prompt_logprobs=0))
    many.finish()
    pieces = [one for one in many.told[2] if isinstance(one, Piece)]
    told = pieces[0].tokens
    assert pieces[0].text == ""
    assert [info.token for info in told] == IDS
    assert told[0].logprob is None
    for i, info in enumerate(told[1:]):
        assert info.logprob == pytest.approx(logp[i][info.token], abs=1e-4)
        best = np.argsort(-logp[i], kind="stable")[:2]
        assert [one.token for one in info.top] == best.tolist()
        assert [one.logprob for one in info.top] == pytest.approx(logp[i][best], abs=1e-4)
    assert len(many.tokens(2)) == len(IDS) + 3
    (short,) = (one for one in many.told[3] if isinstance(one, Piece))
    assert [info.token for info in short.tokens] == IDS[:20]
    assert not any(info.top for info in short.tokens)


def test_too_many_alternatives_are_refused(model: Model) -> None:
    with pytest.raises(BadSetting, match="prompt_logprobs"):
        Many(model).ask(asked(1, IDS, 1, prompt_logprobs=1000))

"""Files of recurrent models that lie about their states: one line, and never another error."""

from pathlib import Path

import pytest

from engine.errors import CutawayError
from engine.gguf import open_gguf
from engine.models.build import build_model
from tests.engine.models.test_hostile import keys, values, with_values
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS

OWN = (
    *("ssm.", "wkv.", "token_shift", "shortconv."),
    *("full_attention", "attention.recurrent", "attention.head", "feed_"),
)
"""Parts of keys that say what is carried, and where."""


@pytest.mark.parametrize(
    "name", ["lfm2", "qwen35", "mamba", "mamba2", "nemotron_h", "falcon_h1", "jamba", "rwkv7"]
)
def test_every_number_of_a_state_has_a_range(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    own = [one for one in keys(row.architecture) if one[1].key.startswith(OWN)]
    assert own
    with open_gguf(write(row, tmp_path)) as file:
        original = file.metadata
        for kind, meta in own:
            for value in values(kind, meta):
                file.metadata = original
                file.metadata = with_values(file, **{meta.key: value})
                try:
                    build_model(file, 64, 16)
                except CutawayError as error:
                    message = str(error).removeprefix(f"{file.paths[0]}: ")
                    assert "\n" not in message, (meta.key, value)
                    assert len(message) < 400, (meta.key, value, message)

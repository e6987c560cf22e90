"""resources/docs/laboratory.md: its commands exist, and run on the model that it is about."""

import re
import shlex
from pathlib import Path

import pytest

from tests.in_process import kept_engines, run_here

__all__ = ["kept_engines"]
ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "resources" / "docs" / "laboratory.md").read_text("utf-8")
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
HAPPY = "I am so happy today\nWhat a wonderful day\nI love this\nThis makes me smile\nGreat news"
SAD = "I am so sad today\nWhat a terrible day\nI hate this\nThis makes me cry\nBad news"


def test_each_command_exists() -> None:
    assert len(COMMANDS) >= 9
    for program, name, *_ in COMMANDS:
        assert program == "cutaway"
        assert (ROOT / "app" / "commands" / f"{name}.py").is_file()


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.device
def test_the_guide_runs(
    smollm2_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, in one folder; the answers are those that the text promises."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTAWAY_MODELS", str(smollm2_path.parent))
    (tmp_path / "happy.txt").write_text(HAPPY)
    (tmp_path / "sad.txt").write_text(SAD)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("The sea is large and blue. " * 80)
    outputs = []
    for _, *words in COMMANDS:
        ended = run_here(*words)
        assert ended.returncode == 0, ended
        outputs.append(ended.stdout)
    assert '" Paris" is on top from layer' in outputs[0]
    assert "(denoising)" in outputs[1]
    assert "heads" in outputs[2]
    steered, random = outputs[5], outputs[6]
    assert steered.strip() != random.strip()
    assert "same top token  100.000" in outputs[7]
    assert (tmp_path / "recorded" / "imatrix.gguf").is_file()

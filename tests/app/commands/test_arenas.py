"""What a plan tells of the memory for its graphs."""

from pathlib import Path

from app.commands.plan import lines
from engine.protocol import DescribePlan, Planned
from engine.settings import EngineOptions
from engine.worker import Worker


def test_a_plan_names_what_fills_an_arena(tiny_path: Path) -> None:
    """Largest are 96 channels of a feed-forward times 512 tokens; gate and up are there at once."""
    with Worker() as worker:
        request = DescribePlan(worker.new_id(), str(tiny_path), EngineOptions(device="host"))
        (planned,) = (r for r in worker.run(request) if isinstance(r, Planned))
    (arena,) = planned.arenas
    assert arena.device == "host"
    assert sum(size for _, size in arena.alive) == arena.bound == arena.size
    assert arena.alive[:2] == [("ffn_gate-0", 512 * 96 * 4), ("ffn_up-0", 512 * 96 * 4)]
    assert arena.node == "ffn_up-0"
    graph = [r.size for r in planned.memory.rows if r.component == "graph"]
    assert graph == [arena.size]
    assert any(
        "fullest while ffn_up-0 runs: ffn_gate-0 0.2, ffn_up-0 0.2" in s for s in lines(planned)
    )

"""A placement as `cutaway plan` shows it: splits, what crosses between devices, what fits."""

from engine.device.backend import Backend
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.memory.rule import rule_of
from engine.protocol import (
    ArenaRow,
    BudgetRow,
    CopyRow,
    DescribePlan,
    Planned,
    PlannedMemory,
    Speed,
    SplitRow,
)
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.placement import DecidedPlacement
from engine.runner.records import foreseen
from engine.scheduler.costs import costs
from engine.scheduler.outline import Division, Peak
from engine.scheduler.places import sources
from engine.scheduler.split import Split
from engine.units import MIB


def text(made: Division, nodes: bool = True) -> str:
    """The form of ggml's printed assignments (`GGML_SCHED_DEBUG`), but for names of devices, which
    are longer here; without `nodes` the splits alone. Views are left out.
    """
    number = {node: i for i, node in enumerate(made.graph.nodes)}
    lines = []
    for i, part in enumerate(made.splits):
        lines += ["", _split(i, part)]
        if nodes:
            lines += [_node(made, number[node], node) for node in part.nodes]
    return "\n".join(lines) + "\n"


def _split(i: int, part: Split) -> str:
    inputs = "".join(f" [{c.name} ({_size(c.source):>5.5})]" for c in part.copies)
    return f"## SPLIT #{i}: {part.backend.name} # {len(part.copies)} inputs:{inputs}"


def _node(made: Division, number: int, node: Tensor) -> str:
    where = "".join(
        f" {source.name:>20.20} ({_size(source):>4.4}) [{_place(made, source)}]"
        for _, source in sources(node)
    )
    return (
        f"node #{number:3} ({node.op.upper():>10.10}): {node.name:>20.20} "
        f"({_size(node):>4.4}) [{_place(made, node)}]:{where}"
    )


def _place(made: Division, tensor: Tensor) -> str:
    """The device and the cause, of a view those of what it looks at."""
    storage = tensor.storage
    assigned = made.assignments.get(tensor if tensor.op not in VIEW_OPS else storage)
    home = made.places.home(storage)
    if assigned is not None:
        name, cause = assigned.backend.name, assigned.cause
    elif storage.role is Role.INPUT:
        name, cause = made.places.host.name, "1.inp"
    else:
        name, cause = "" if home is None else home.name, "1.dst"
    return f"{name:>8.8} {cause:>6.6}"


def _size(tensor: Tensor) -> str:
    size = tensor.nbytes
    return f"{size // MIB}M" if size >= MIB else f"{size // 1024}K"


def describe_plan(
    request: DescribePlan, placed: DecidedPlacement, name: str, speed: Speed | None = None
) -> Planned:
    """The plan of one decode step with an empty cache."""
    dry = placed.dry
    built = dry.built
    step = dry.one_token()
    splits = [split_row(part) for part in step.splits]
    return Planned(
        request.id,
        name=name,
        architecture=built.arch,
        n_ctx=built.n_ctx,
        kv=request.options.kv,
        activations=request.options.activations,
        layers=list(dry.placement.layers),
        overrides=list(dry.placement.overrides),
        reasons=list(dry.placement.reasons),
        memory=foreseen(PlannedMemory, request.id, dry, placed.failure),
        budgets=budgets(dry),
        log=dry.memory().log_lines(),
        splits=splits,
        arenas=[_arena(backend.name, peak) for backend, peak in dry.peaks if peak.size],
        crossing=sum(c.size for s in splits for c in s.copies if c.origin is not None),
        warnings=[str(cost) for cost in costs(step)],
        problem=str(placed.failure or ""),
        nodes=text(step) if request.nodes else "",
        rule=rule_of(dry.placement),
        speed=speed,
    )


def budgets(dry: DryRun) -> list[BudgetRow]:
    """Every device in use against its budget, or what its pool allows."""
    wanted = {d.name: 0 for d in dry.memory().devices}
    for one in dry.wanted():
        wanted[one.backend.name] += one.size
    return [budget_row(backend, wanted[backend.name]) for backend in dry.backends]


def budget_row(backend: Backend, size: int) -> BudgetRow:
    """A device that is to hold so many bytes."""
    limit = backend.pool.limit
    limit = limit if backend.budget is None else min(limit, backend.budget)
    return BudgetRow(backend.name, size, limit, max(0, size - limit))


def _arena(device: str, peak: Peak) -> ArenaRow:
    node = "" if peak.node is None else peak.node.name
    return ArenaRow(device, peak.size, peak.bound, node, list(peak.alive))


def split_row(part: Split) -> SplitRow:
    """A split as a message."""
    nodes = part.nodes
    copies = [
        CopyRow(c.source.name, c.origin.name if c.origin is not None else None, c.source.nbytes)
        for c in part.copies
    ]
    return SplitRow(part.backend.name, len(nodes), nodes[0].name, nodes[-1].name, copies)

"""A division as text: its splits with their inputs, and what runs where and why."""

from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.scheduler.outline import Division
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

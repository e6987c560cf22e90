"""A graph for other programs: as JSON all there is, as DOT what Graphviz draws."""

import msgspec

from app.state.graph.blocks import GraphIndex, key_of, shape_text, title_of
from engine.protocol import GraphDone


def as_json(graph: GraphDone) -> str:
    """Everything that the engine told."""
    made = msgspec.to_builtins(graph)
    del made["id"]
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def as_dot(index: GraphIndex) -> str:
    """A cluster for each block; lines from source to reader, dashed where they change device."""
    graph = index.graph
    lines = ["digraph model {", "  node [shape=box, fontname=monospace];"]
    for at, block in enumerate(index.blocks):
        lines += [f"  subgraph cluster_{at} {{", f"    label={_text(block.title)};"]
        for number in block.nodes:
            node = graph.nodes[number]
            label = f"{title_of(node)}\n{node.op} {shape_text(node)} {node.dtype}\n{node.device}"
            tip = f"{key_of(node)}: {node.why}"
            style = ", style=dashed" if node.role == "view" else ""
            lines.append(f"    n{number} [label={_text(label)}, tooltip={_text(tip)}{style}];")
        lines.append("  }")
    for number in index.block_of:
        node = graph.nodes[number]
        for source in node.sources:
            if source in index.block_of:
                crosses = graph.nodes[source].device != node.device
                style = " [style=dashed, color=red]" if crosses else ""
                lines.append(f"  n{source} -> n{number}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _text(text: str) -> str:
    """A string of DOT: what a model named its tensors is not taken for markup."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

"""Why a node runs where it does, in sentences: which rule chose the device, and who decided."""

import re
from collections.abc import Mapping

from engine.device.backend import Backend
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.memory.placement import Placement
from engine.scheduler.assign import CAUSES, Assignment
from engine.scheduler.outline import Outline
from engine.scheduler.places import sources

_POSITION = re.compile(r"\d+$")


class Reasons:
    """The reasons of one outline. `layers` has the layer of each leaf, None for none."""

    def __init__(
        self, made: Outline, placement: Placement, layers: Mapping[Tensor, int | None]
    ) -> None:
        self._made, self._placement, self._layers = made, placement, layers
        self._readers: dict[Tensor, list[Tensor]] = {}
        self._names: dict[Tensor, list[str]] = {}
        for node in made.graph.nodes:
            self._names.setdefault(node.storage, []).append(node.name)
            if node.op not in VIEW_OPS:
                for _, source in sources(node):
                    self._readers.setdefault(source.storage, []).append(node)

    def cause(self, tensor: Tensor) -> tuple[str, str]:
        """The device of a tensor and the rule's code; of a view those of what it looks at."""
        assigned = self._assigned(tensor)
        if assigned is not None:
            return assigned.backend.name, assigned.cause
        if tensor.storage.role is Role.INPUT:
            return self._made.places.host.name, "1.inp"
        home = self._made.places.home(tensor.storage)
        return ("" if home is None else home.name), "1.dst"

    def why(self, tensor: Tensor) -> str:
        """The cause in a sentence."""
        if tensor.op in VIEW_OPS:
            return f"a view of {tensor.storage.name}: the same bytes, nothing is computed"
        assigned = self._assigned(tensor)
        if assigned is None:
            return self._of_leaf(tensor)
        code, device = _POSITION.sub("", assigned.cause[1:]), assigned.backend
        source = self._source(tensor, assigned.cause)
        match assigned.cause[0] + code:
            case "usr":
                return f"pinned to {device.name}{self._pinned(tensor)}"
            case "1.vsrc":
                kept = tensor.storage
                return f"writes to {kept.name} on {device.name}: {self._who(kept)}"
            case "1.wgt" if source is not None:
                where = f"its weight {source.name} is on {device.name}"
                return f"{where}: {self._who(source.storage)}"
            case "1.src" if source is not None:
                kept = source.storage
                return f"its cache {kept.name} is on {device.name}: {self._who(kept)}"
            case "2.src" if source is not None:
                return f"follows its source {source.name}, which {device.name} computes"
            case "2.use":
                return f"what reads it, {self._reader(tensor, device)}, runs on {device.name}"
            case "3.upg" if source is not None:
                held = f"reads {source.name} in place, in host memory"
                return f"{held}, and what follows runs on {device.name}"
            case "3.best":
                return f"free choice: {device.name} is the fastest"
            case "3.sup":
                return self._refused(tensor, device)
        return f"{assigned.reason}: {device.name}"

    def cut(self, number: int) -> str:
        """Why a split begins."""
        part = self._made.splits[number].split
        if number == 0:
            return "start of the step"
        if self._made.splits[number - 1].split.backend is not part.backend:
            return f"{part.nodes[0].name} {_runs(self.why(part.nodes[0]))}"
        waited = max(part.copies, key=lambda copy: copy.made)
        return f"waits for {waited.source.name}, which split {waited.made} computes elsewhere"

    def _assigned(self, tensor: Tensor) -> Assignment | None:
        return self._made.assignments.get(tensor if tensor.op not in VIEW_OPS else tensor.storage)

    def _source(self, node: Tensor, cause: str) -> Tensor | None:
        """The source that a cause names by its position."""
        found = _POSITION.search(cause[1:])
        at = int(found[0]) if found is not None else 0
        return node.src[at] if at < len(node.src) else None

    def _of_leaf(self, leaf: Tensor) -> str:
        if leaf.role is Role.INPUT:
            return "an input: the host fills it in every step"
        home = self._made.places.home(leaf)
        return f"is on {'no device' if home is None else home.name}: {self._who(leaf)}"

    def _who(self, leaf: Tensor) -> str:
        """Who decided where a weight or a cache lies."""
        layer = self._layers.get(leaf)
        if layer is None:
            return "its rows are looked up in the mapped file"
        rule = self._rule(leaf.name) if leaf.role is Role.WEIGHT else None
        if rule is not None:
            return f"required by the rule {rule}"
        named = "the output block" if layer == self._placement.n_layer else f"layer {layer}"
        if layer in self._placement.requested:
            return f"{named} was placed there by the user"
        return f"the automatic placement chose it for {named}"

    def _rule(self, name: str) -> str | None:
        """The pattern that names a tensor, as people write it."""
        found = (f"{p}={device}" for p, device in self._placement.overrides if re.search(p, name))
        return next(found, None)

    def _pinned(self, tensor: Tensor) -> str:
        rules = (self._rule(name) for name in self._names[tensor.storage])
        rule = next((rule for rule in rules if rule is not None), None)
        return "" if rule is None else f" by the rule {rule}"

    def _reader(self, node: Tensor, device: Backend) -> str:
        for reader in self._readers.get(node.storage, ()):
            assigned = self._assigned(reader)
            if assigned is not None and assigned.backend is device:
                return reader.name
        return "a node"

    def _refused(self, node: Tensor, device: Backend) -> str:
        """Which devices have no kernel for what they should compute."""
        places = self._made.places
        beside = [self.cause(s)[0] for _, s in sources(node)]
        beside += [self.cause(reader)[0] for reader in self._readers.get(node.storage, ())]
        refusing = [
            backend.name
            for backend in places.backends
            if backend.name in beside and not backend.supports(node, places.types_on(backend))
        ]
        if not refusing:
            return f"{CAUSES['3.sup']}: {device.name} runs it"
        of = ", ".join(f"{s.fmt.name} {list(s.dims)}" for _, s in sources(node))
        return f"{' and '.join(refusing)} cannot compute {node.op} of {of}: {device.name} runs it"


def _runs(why: str) -> str:
    """A sentence of `why` behind a node's name."""
    return why if why.split()[0] in ("follows", "writes", "reads") else f"runs there: {why}"

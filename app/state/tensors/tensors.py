"""Which tensors there are, the one that is looked at, and what can be said of all its numbers."""

import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.engine import WeightReader
from app.language import tr
from app.state.models.model import ModelState
from app.state.selection import Selected, Selection, layer_of
from app.state.tensors.numbers import Numbers, weight
from app.state.tensors.results import ResultsState, TensorGroup, TensorItem
from app.state.tensors.statistics import Loss, Statistics, loss, measured
from app.work import Work
from engine.errors import BadSetting
from engine.protocol import TensorRow


class TensorsState(QObject):
    """Reads only while it is shown. `numbers` are those of `item` once they can be read,
    `statistics` of all of them once somebody wanted these, `done` of 1 while that takes.
    """

    listed = Signal()  # groups
    opened = Signal()  # item, numbers or problem
    measured = Signal()  # statistics or done
    compared = Signal()  # loss, comparing or loss_problem

    def __init__(
        self,
        client: EngineClient,
        file: ModelState,
        selection: Selection,
        results: ResultsState,
        layers_on: Callable[[str], Collection[int]],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._file, self._selection = client, file, selection
        self._results, self._layers_on = results, layers_on
        self._weight_groups: list[TensorGroup] = []
        self.item: TensorItem | None = None
        self.numbers: Numbers | None = None
        self.problem = ""
        self.statistics: Statistics | None = None
        self.done: float | None = None
        self.loss: Loss | None = None
        self.loss_problem = ""
        self.comparing: float | None = None
        self.other: Path | None = None
        self._shown = False
        self._weights: WeightReader | None = None
        self._opening: Work | None = None
        self._measuring: Work | None = None
        self._comparing: Work | None = None
        file.changed.connect(self._file_changed)
        selection.changed.connect(self._follow)
        results.listed.connect(self.listed)
        self._path: Path | None = None
        self._unlisted: Selected | None = None  # when numbers were shown that are in no list
        self._token: tuple[int, int] | None = None  # the word that a result was computed for

    @property
    def groups(self) -> list[TensorGroup]:
        """Weights, then what the model computes."""
        return [*self._weight_groups, *self._results.groups]

    @property
    def ready(self) -> bool:
        """True if the file's numbers can be read."""
        return self._weights is not None

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible; hidden views read nothing."""
        self._shown = shown
        if shown:
            self._file_changed()
            self._results.look()
            self._follow()
        else:
            self._stop()

    def choose(self, item: TensorItem) -> None:
        """Look at a tensor, and select it."""
        self._show(item)
        if item.result is None:
            self._selection.select_tensor(item.name, item.layer)
        else:
            self._selection.select_operation(item.name, item.layer)

    def show_numbers(self, numbers: Numbers) -> None:
        """Look at numbers that are in no list, until something else is selected."""
        self._stop()
        self.item = TensorItem(numbers.name, numbers.type, numbers.dims, None)
        self.problem, self.numbers = "", numbers
        self.statistics, self.loss, self.loss_problem = None, None, ""
        self._unlisted = self._selection.now
        self.opened.emit()

    def measure(self) -> None:
        """Find the statistics of the tensor, unless they are there or under way."""
        if self.numbers is None or self.statistics is not None or self._measuring is not None:
            return
        self.done = 0.0
        job = Work.polling(_measured, self.numbers)
        job.then(self._measured).fail(self._not_measured).progress(self._measuring_is_at)
        self._measuring = job.start(self)
        self.measured.emit()

    def cancel(self) -> None:
        """Stop what takes long."""
        self._stop()
        self.measured.emit()
        self.compared.emit()

    def compare(self, path: Path) -> None:
        """Find how far the tensor is from the same in another file."""
        self.other, self.loss, self.loss_problem = path, None, ""
        if self._comparing is not None:
            self._comparing.cancel()
        if self.numbers is not None:
            self.comparing = 0.0
            job = Work.polling(_lost, self._client, self.numbers, str(path))
            job.then(self._lost).fail(self._not_compared).progress(self._comparing_is_at)
            self._comparing = job.start(self)
        self.compared.emit()

    def close(self) -> None:
        """Let go of the file."""
        self._stop()
        if self._weights is not None:
            self._weights.close()
            self._weights = None

    # The file

    def _file_changed(self) -> None:
        content = self._file.content
        path = Path(content.path) if content is not None else None
        if not self._shown or path == self._path:
            return
        self.close()
        self._path = path
        self.item = self.numbers = self._unlisted = None
        self.problem = ""
        self._weight_groups = _groups(content.tensors if content is not None else ())
        self.listed.emit()
        self.opened.emit()
        if path is not None:
            job = Work(self._client.weights, str(path))
            self._opening = job.then(partial(self._opened, path)).fail(self._failed).start(self)

    def _opened(self, path: Path, weights: WeightReader) -> None:
        self._opening = None
        if path != self._path:
            weights.close()
            return
        self._weights = weights
        if self.item is not None and self._unlisted is None:
            self._show(self.item)
        self._follow()

    def _failed(self, problem: str) -> None:
        self._opening = None
        self.problem = problem
        self.opened.emit()

    # The tensor

    def _show(self, item: TensorItem) -> None:
        self._stop()
        self._unlisted = None
        self.item, self.problem = item, ""
        self._token = self._selection.now.token
        self.statistics, self.loss, self.loss_problem = None, None, ""
        self.numbers = None
        if item.result is not None:
            self._results.compute(item, self._computed, self._failed)
        elif self._weights is not None:
            self.numbers = weight(self._weights, item.name)
        self.opened.emit()
        if self.other is not None and self.numbers is not None:
            self.compare(self.other)

    def _computed(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.opened.emit()

    def _follow(self) -> None:
        """Show the tensor that was selected in another view."""
        now = self._selection.now
        if not self._shown or now == self._unlisted:
            return
        items = [item for group in self.groups for item in group.items]
        named = now.operation or now.tensor
        found = next((item for item in items if item.name == named), None)
        if found is not None and found.result is not None and now.token != self._token:
            self._token = now.token
            self._show(found)  # its numbers for another word
            return
        if found is None and now.layer is not None:
            found = self._of_layer(now.layer, items)
        elif found is None and now.device is not None:
            found = self._of_device(now.device, items)
        if found is not None and found != self.item:
            self._show(found)

    def _of_layer(self, layer: int, items: list[TensorItem]) -> TensorItem | None:
        """The tensor that is there what the chosen one is in its layer; else its first one."""
        name = self.item.name if self.item is not None else ""
        if self.item is not None and self.item.layer == layer:
            return self.item
        same = re.sub(r"\d+", str(layer), name, count=1)
        there = [item for item in items if item.layer == layer]
        return next((item for item in there if item.name == same), there[0] if there else None)

    def _of_device(self, device: str, items: list[TensorItem]) -> TensorItem | None:
        """The chosen tensor where its layer lies there; else the first of a layer that does."""
        layers = self._layers_on(device)
        if self.item is not None and self.item.layer in layers:
            return self.item
        return next((item for item in items if item.layer in layers), None)

    def _stop(self) -> None:
        self._results.forget()
        for job in (self._measuring, self._comparing):
            if job is not None:
                job.cancel()
        self._measuring = self._comparing = None
        self.done = self.comparing = None

    def _measured(self, found: Statistics | None) -> None:
        self._measuring, self.done, self.statistics = None, None, found
        self.measured.emit()

    def _not_measured(self, problem: str) -> None:
        self._measuring, self.done, self.problem = None, None, problem
        self.measured.emit()
        self.opened.emit()

    def _measuring_is_at(self, done: float) -> None:
        self.done = done
        self.measured.emit()

    def _lost(self, found: Loss | None) -> None:
        self._comparing, self.comparing, self.loss = None, None, found
        self.compared.emit()

    def _not_compared(self, problem: str) -> None:
        self._comparing, self.comparing, self.loss_problem = None, None, problem
        self.compared.emit()

    def _comparing_is_at(self, done: float) -> None:
        self.comparing = done
        self.compared.emit()


def _measured(job: Work, numbers: Numbers) -> Statistics | None:
    def on_progress(done: int, total: int) -> bool:
        job.report(done / total)
        return not job.cancelled

    return measured(numbers, on_progress)


def _lost(job: Work, client: EngineClient, numbers: Numbers, path: str) -> Loss | None:
    def on_progress(done: int, total: int) -> bool:
        job.report(done / total)
        return not job.cancelled

    other = client.weights(path)
    try:
        if numbers.name not in other.tensors:
            raise BadSetting("file", path, tr("a model with {name}", name=numbers.name))
        exact = weight(other, numbers.name)
        if exact.dims != numbers.dims:
            raise BadSetting("file", path, f"{numbers.name} of {list(numbers.dims)}")
        return loss(numbers, exact, on_progress)
    finally:
        other.close()


def _groups(tensors: tuple[TensorRow, ...]) -> list[TensorGroup]:
    """By layer, in their order; what belongs to none first, what follows the layers last."""
    layers: dict[int | None, list[TensorItem]] = {}
    n_layer = 1 + max((layer_of(t.name, 0) or 0 for t in tensors), default=0)
    for tensor in tensors:
        layer = layer_of(tensor.name, n_layer)
        item = TensorItem(tensor.name, tensor.type, tensor.shape, layer)
        layers.setdefault(layer, []).append(item)
    order = sorted(layers, key=lambda layer: -1 if layer is None else layer)
    return [TensorGroup(_title(layer, n_layer), tuple(layers[layer])) for layer in order]


def _title(layer: int | None, n_layer: int) -> str:
    if layer is None:
        return tr("Outside layers")
    return tr("Output block") if layer == n_layer else tr("Layer {layer}", layer=layer)

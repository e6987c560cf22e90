"""The edits of the next answer: a row of chips above the message field, and a form for one."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QFrame,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from app.language import tr
from app.state.talk.edits import NEVER, ChatEdit, words
from app.state.trial import control_of
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, IconButton, label, literal, surface
from app.widgets.controls.flow import Flow
from app.widgets.controls.number_slider import NumberSlider
from app.widgets.focus import has_focus
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.popover import Popover
from app.widgets.tips import set_tip
from engine.errors import BadSetting
from engine.protocol import Edit, EditOp

LONGEST = 340  # pixels of a chip's words at normal text
PLAIN_OPS: dict[EditOp, str] = {"scale": tr("Multiply by"), "add": tr("Add"), "set": tr("Set to")}
STEERING_OPS: dict[EditOp, str] = {
    "add": tr("Add the direction, times"),
    "project": tr("Remove the direction, times"),
    "hold": tr("Hold along the direction at"),
}
TAKEN_OPS: dict[EditOp, str] = {"set": tr("Take its values, times")}
CUSTOM = "custom"
NARROW = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
POSITIONS = {
    "all": tr("Everywhere"),
    "prompt": tr("In the prompt"),
    "answer": tr("In the answer"),
    "last": tr("At the last token of the prompt"),
    CUSTOM: tr("At some positions"),
}
VALUE_HELP = tr("A factor: 0 removes, 1 is once")
FIELDS = {
    "layers": tr("Layers"),
    "head": tr("Head"),
    "positions": tr("Positions"),
    "value": tr("Value"),
}
UNKNOWN = 1 << 20  # layers or channels of a model that nothing is known of
CONTROL = tr("Random control")
CONTROL_HELP = tr(
    "Answer again with random vectors of the same lengths, or other heads, in place of these: what"
    " they do, too, is no effect of the edits"
)


class EditChip(QFrame):
    """An edit in words, which opens its form, and a cross."""

    def __init__(self, one: ChatEdit, opened: Callable[[], object], gone: Callable[[], object]):
        super().__init__()
        surface(self, "card")
        text = words(one)
        self.button = Button("", opened, "flat")
        room = fonts.px(LONGEST)
        shown = self.button.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        self.button.setText(literal(shown if one.on else tr("{edit} (off)", edit=shown)))
        applied = tr("Edit: {edit}", edit=text)
        unused = tr("Edit: {edit}, not applied", edit=text)
        self.button.setAccessibleName(applied if one.on else unused)
        set_tip(self.button, text if shown != text else "")
        self.remove = IconButton("close", tr("Remove: {edit}", edit=text), gone, 14)
        hbox(self.button, self.remove, on=self, margins=(GRID // 2, 0, GRID // 2, 0), spacing=0)


class EditsBar(Flow):
    """Shown while the chat has edits: a switch for all, a chip for each, and what compares them."""

    compare_wanted = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__(tr("Edits of the next answer"))
        self._bench, self._edits = bench, bench.chat.edits
        self._shown: object = None
        self.form: EditForm | None = None
        self.switch: QCheckBox | None = None
        self.control: Button | None = None
        self.chips: list[EditChip] = []
        self._edits.changed.connect(self.refresh)
        for changed in (bench.chat.busy_changed, bench.chat.path_changed, bench.file.changed):
            changed.connect(self._refresh_buttons)
        self.refresh()

    def refresh(self) -> None:
        """Show the edits as they are now."""
        edits = self._edits.value
        shown = (edits, self._edits.can_undo, self._edits.can_redo)
        if shown == self._shown:
            return
        self._shown = shown
        at = next((i for i, item in enumerate(self.items) if has_focus(item)), None)
        self._make() if edits else self.show_items([])
        if at is not None and self.items:
            _focus(self.items[min(at, len(self.items) - 1)])
        self._refresh_buttons()

    def open_form(self, at: int) -> None:
        """Show the values of number `at`."""
        if self.form is None:
            self.form = EditForm(self._bench, self)
        self.form.open_at(at, self)

    def _make(self) -> None:
        edits = self._edits.value
        self.switch = QCheckBox(tr("Edits"))
        self.switch.setChecked(edits.on)
        self.switch.setFixedHeight(fonts.row())
        self.switch.setAccessibleName(tr("Apply the edits to the next answer"))
        set_tip(self.switch, tr("Apply the edits to the next answer"))
        self.switch.toggled.connect(self._edits.switch_all)
        self.chips = [
            EditChip(one, partial(self.open_form, at), partial(self._edits.remove, at))
            for at, one in enumerate(edits.edits)
        ]
        for chip in self.chips:
            chip.button.setEnabled(True)
        undo = IconButton("undo", tr("Undo the edit"), self._edits.undo, 16)
        undo.setEnabled(self._edits.can_undo)
        redo = IconButton("redo", tr("Redo the edit"), self._edits.redo, 16)
        redo.setEnabled(self._edits.can_redo)
        self.control = Button(CONTROL, self._start_control, "link")
        set_tip(self.control, CONTROL_HELP)
        compare = Button(tr("Compare…"), self.compare_wanted.emit, "link")
        compare.setAccessibleName(tr("Compare the answers with and without edits"))
        self.show_items([self.switch, *self.chips, self.control, compare, undo, redo])

    @property
    def can_control(self) -> bool:
        """True if the last question can be answered with a random control of the edits."""
        parts = self._bench.token.parts
        heads = parts.n_head if parts is not None else None
        answered = self._bench.trial.row_to_try() is not None and not self._bench.chat.busy
        return answered and control_of(self._edits.value.active, 1, heads) is not None

    def _refresh_buttons(self) -> None:
        if self.control is not None and self._edits.value:
            self.control.setEnabled(self.can_control)

    def _start_control(self) -> None:
        parts = self._bench.token.parts
        if self._bench.trial.start_control(parts.n_head if parts is not None else None):
            self.compare_wanted.emit()


class EditForm(Popover):
    """The values of one edit; what is typed holds at once, or the form says why it cannot."""

    def __init__(self, bench: Workbench, parent: QWidget) -> None:
        super().__init__(tr("Edit"), parent)
        self._bench, self._edits = bench, bench.chat.edits
        self._at, self._filling = 0, False
        self.title = label("", size="strong", wrap=True)
        self.on = QCheckBox(tr("Apply it to the next answer"))
        self.on.setAccessibleName(self.on.text())
        self.op, self.where = QComboBox(), QComboBox()
        for code, title in POSITIONS.items():
            self.where.addItem(title, code)
        for combo in (self.op, self.where):  # as wide as there is room, whatever it offers
            combo.setSizeAdjustPolicy(NARROW)
            combo.setMinimumContentsLength(8)
        self.layers, self.positions = QLineEdit(), QLineEdit()
        self.part = QSpinBox()
        self.part.setRange(0, UNKNOWN)
        self.value = NumberSlider(tr("Value"), VALUE_HELP, -4.0, 4.0, 1e6, 2)
        self.value.field.setMinimum(-1e6)
        self.problem = label("", "bad", wrap=True)
        self._part_name = label(tr("Head"))
        for widget, name in (
            (self.op, tr("Operation")),
            (self.where, tr("Where")),
            (self.layers, tr("Layers")),
            (self.positions, tr("Positions")),
            (self.part, tr("Head")),
        ):
            widget.setAccessibleName(name)
        self.layers.setPlaceholderText(tr("5, or 8–20"))
        self.positions.setPlaceholderText(tr("3, or 3:8, which ends before 8"))
        self._lay_out()
        self.on.toggled.connect(self._changed)
        self.op.activated.connect(self._changed)
        self.where.activated.connect(self._changed)
        self.part.valueChanged.connect(self._changed)
        self.layers.textEdited.connect(self._changed)
        self.positions.textEdited.connect(self._changed)
        self.value.changed.connect(lambda _: self._changed(sliding=True))
        self._edits.changed.connect(self._follow)

    def open_at(self, at: int, place: QWidget) -> None:
        """Show the values of number `at`, above a widget."""
        self._at = at
        self._fill()
        self.show_above(place, 420)
        self.value.field.setFocus()

    @property
    def edited(self) -> ChatEdit:
        """The edit that the form describes. Raises `BadSetting`."""
        one = self._edits.value.edits[self._at]
        parts = self._bench.token.parts
        layers = one.edit.layers and layers_of(
            self.layers.text(), parts.n_layer if parts is not None else None
        )
        where = str(self.where.currentData())
        positions = self.positions.text().strip() if where == CUSTOM else where
        made = replace(
            one.edit,
            op=self.op.currentData(),
            layers=layers,
            positions=positions,
            value=self.value.value,
            **self._numbered(one.edit, parts.n_head if parts is not None else None),
        )
        if made.value == one.edit.value and _is_never(one.edit):
            made = replace(made, value=one.edit.value)
        found = replace(one, edit=made, on=self.on.isChecked())
        found.check()
        return found

    def _numbered(self, edit: Edit, n_head: int | None) -> dict[str, object]:
        """The head, expert or channel of the form."""
        number = self.part.value()
        if edit.head is not None:
            if n_head is not None and number >= n_head:
                raise BadSetting("head", number, tr("a head from 0 to {last}", last=n_head - 1))
            return {"head": number}
        if edit.expert is not None:
            return {"expert": number}
        if edit.channels is not None:
            first, end = edit.channels
            return {"channels": (number, number + end - first)}
        return {}

    def _changed(self, _: object = None, sliding: bool = False) -> None:
        if self._filling:
            return
        self.positions.setVisible(self.where.currentData() == CUSTOM)
        try:
            one = self.edited
            self._edits.put(self._at, one, sliding)
        except BadSetting as error:
            self.problem.setText(plain(error))
            self.problem.show()
            return
        self.problem.hide()
        self.title.setText(_capital(words(one)))

    def _follow(self) -> None:
        """Hide once its edit is gone, as by undo."""
        if self.isVisible() and self._at >= len(self._edits.value.edits):
            self.hide()

    def _fill(self) -> None:
        self._filling = True
        one = self._edits.value.edits[self._at]
        edit = one.edit
        self.title.setText(_capital(words(one)))
        self.on.setChecked(one.on)
        ops = PLAIN_OPS if not one.directions else STEERING_OPS
        ops = TAKEN_OPS if one.directions and edit.op == "set" else ops
        self.op.clear()
        for op, title in ops.items():
            self.op.addItem(title, op)
        if edit.op not in ops:
            self.op.addItem(edit.op.capitalize(), edit.op)
        self.op.setCurrentIndex(max(0, self.op.findData(edit.op)))
        self.layers.setText(layers_text(edit.layers))
        self.layers.setEnabled(bool(edit.layers))
        where = edit.positions if edit.positions in POSITIONS else CUSTOM
        self.where.setCurrentIndex(self.where.findData(where))
        self.positions.setText(edit.positions if where == CUSTOM else "")
        self.positions.setVisible(where == CUSTOM)
        kind, number = _part_of(edit)
        for widget in (self._part_name, self.part):
            widget.setVisible(number is not None)
        self._part_name.setText(kind)
        self.part.setAccessibleName(kind)
        self.part.setValue(number or 0)
        self.value.set_value(edit.value)
        self.value.setEnabled(not _is_never(edit))
        self.problem.hide()
        self._filling = False

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setHorizontalSpacing(GRID)
        form.setVerticalSpacing(GRID)
        form.addRow(label(tr("Layers"), "quiet"), self.layers)
        form.addRow(self._part_name, self.part)
        self._part_name.setProperty("tone", "quiet")
        form.addRow(label(tr("Operation"), "quiet"), self.op)
        form.addRow(label(tr("Where"), "quiet"), self.where)
        form.addRow("", self.positions)
        row = hbox(STRETCH, Button(tr("Remove"), self._remove), Button(tr("Close"), self.hide))
        vbox(
            self.title,
            form,
            self.value,
            self.on,
            self.problem,
            row,
            on=self.inside,
            margins=(PADDING, PADDING - 4, PADDING, PADDING),
        )
        self.area.setWidget(self.inside)

    def _remove(self) -> None:
        self.hide()
        self._edits.remove(self._at)


def layers_of(text: str, n_layer: int | None = None) -> list[int]:
    """Layers as a person types them: "5", "8-20", "3, 5". Raises `BadSetting`."""
    found: list[int] = []
    expected = tr("a layer or layers, such as 5, or 8–20")
    for part in text.replace("-", "–").split(","):
        first, dash, last = (each.strip() for each in part.partition("–"))
        if not first.isdecimal() or len(first) > 6 or (dash and not last.isdecimal()):
            raise BadSetting("layers", text.strip() or None, expected)
        begin, end = int(first), int(last) if dash and len(last) <= 6 else int(first)
        most = 1023 if n_layer is None else n_layer - 1
        if end < begin or end > most:
            raise BadSetting("layers", part.strip(), tr("layers from 0 to {last}", last=most))
        found += range(begin, end + 1)
    return sorted(set(found))


def layers_text(layers: list[int]) -> str:
    """The reverse of `layers_of`."""
    parts: list[list[int]] = []
    for layer in sorted(layers):
        if parts and parts[-1][-1] == layer - 1:
            parts[-1].append(layer)
        else:
            parts.append([layer])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)


def plain(error: BadSetting) -> str:
    """A refusal as a sentence under a form."""
    name = FIELDS.get(error.name, error.name)
    return tr("{field}: {expected} is needed.", field=name, expected=error.expected)


def _part_of(edit: Edit) -> tuple[str, int | None]:
    if edit.head is not None:
        return tr("Head"), edit.head
    if edit.expert is not None:
        return tr("Expert"), edit.expert
    if edit.channels is not None:
        name = tr("Expert") if edit.site == "ffn_moe_logits" else tr("Channel")
        return name, edit.channels[0]
    return "", None


def _is_never(edit: Edit) -> bool:
    return edit.op == "set" and edit.value <= NEVER


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _focus(item: QWidget) -> None:
    (item.button if isinstance(item, EditChip) else item).setFocus()

"""Answers `ListSlots`."""

from engine.protocol import ListSlots, SlotTable
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(ListSlots)
def _list_slots(service: Service, request: ListSlots) -> SlotTable:
    return service.answering.table(request.id)

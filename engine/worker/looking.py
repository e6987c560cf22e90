"""What is done for each request about the inside of the open model."""

from engine.inside.token.context import context_of
from engine.inside.token.examine import examine
from engine.protocol import Examine, Examined
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(Examine)
def _examine(service: Service, request: Examine) -> Examined:
    model, latest = service.model
    slots = service.answering.slots
    items = context_of(model, latest, request).items
    conversation = slots.nearest(items)
    needed = len(items) - conversation.shared(items)
    while model.built.caches.n_free < needed and slots.evict([conversation]):
        pass
    try:  # what it probes stays until an answer ends: one word is looked at after another
        for reply in examine(model, conversation, request, service.asked_to_stop(request)):
            if isinstance(reply, Examined):
                examined = reply
            else:
                service.send(reply)
    finally:
        model.forget_rows()
    return examined

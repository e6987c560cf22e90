"""What tests of the token's state ask for."""

from engine.protocol import Examine
from tests.app.helpers.scripted import ScriptedEngine

WORDS = ("The", " capital", " is", " Paris", ".")


def asked(engine: ScriptedEngine) -> list[Examine]:
    return [request for request in engine.asked if isinstance(request, Examine)]

"""The messages between a program and its engine: `msgspec` structs, a module a subject.

A request carries an `id`; everything the engine says about it carries the same one. Each request
ends with exactly one reply of the class it names, or with `Failed`. A new message is a class in
one of these modules; what can be sent is derived from the classes there are.
"""

from engine.protocol.devices import *
from engine.protocol.features import *
from engine.protocol.file import *
from engine.protocol.inside.change import *
from engine.protocol.inside.compare import *
from engine.protocol.inside.edit import *
from engine.protocol.inside.graph import *
from engine.protocol.inside.live import *
from engine.protocol.inside.probe import *
from engine.protocol.inside.recording import *
from engine.protocol.inside.token import *
from engine.protocol.load import *
from engine.protocol.measure import *
from engine.protocol.memory import *
from engine.protocol.message import *
from engine.protocol.patch import *
from engine.protocol.place import *
from engine.protocol.plan import *
from engine.protocol.quality import *
from engine.protocol.record import *
from engine.protocol.selftest import *
from engine.protocol.talk.chat import *
from engine.protocol.talk.infill import *
from engine.protocol.talk.picture import *
from engine.protocol.talk.texts import *

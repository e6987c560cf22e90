"""The messages between a program and its engine: `msgspec` structs, a module a subject.

A request carries an `id`; everything the engine says about it carries the same one. Each request
ends with exactly one reply of the class it names, or with `Failed`. A new message is a class in
one of these modules; what can be sent is derived from the classes there are.
"""

from engine.protocol.change import *
from engine.protocol.chat import *
from engine.protocol.compare import *
from engine.protocol.devices import *
from engine.protocol.embed import *
from engine.protocol.encode import *
from engine.protocol.file import *
from engine.protocol.form import *
from engine.protocol.graph import *
from engine.protocol.live import *
from engine.protocol.load import *
from engine.protocol.measure import *
from engine.protocol.memory import *
from engine.protocol.message import *
from engine.protocol.picture import *
from engine.protocol.place import *
from engine.protocol.plan import *
from engine.protocol.probe import *
from engine.protocol.recording import *
from engine.protocol.selftest import *
from engine.protocol.token import *
from engine.protocol.tool import *
from engine.protocol.tune import *

"""All operations, by name."""

from tests.failing.operations import caches, chats, models, outputs, settings
from tests.failing.sweep import Operation

OPERATIONS: dict[str, Operation] = {
    one.name: one for area in (chats, settings, models, caches, outputs) for one in area.OPERATIONS
}

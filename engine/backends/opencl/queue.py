"""A backend's queue: a plain one, and one that keeps times for as long as somebody measures."""

from engine.backends.opencl.drivers.loader import cl


class Queue:
    """Commands run in order, also across a change from one of the two to the other."""

    def __init__(self, context: cl.Context, device: cl.Device) -> None:
        """Raises `cl.Error`."""
        self.context, self._device = context, device
        self._plain = self.now = cl.CommandQueue(context, device)
        self._measured: cl.CommandQueue | None = None

    def measure(self, wanted: bool) -> None:
        """Keep the times of the commands that come, or no longer: on some drivers all commands are
        slower with it. Raises `cl.Error`.
        """
        if wanted == (self.now is self._measured):
            return
        self.now.finish()
        if wanted and self._measured is None:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            self._measured = cl.CommandQueue(self.context, self._device, profiling)
        self.now = self._measured if wanted and self._measured is not None else self._plain

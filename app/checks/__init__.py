"""Checks of devices and drivers, run in the engine's processes."""

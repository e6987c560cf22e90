"""A report on a machine's devices in one file, for people without access to the machine."""

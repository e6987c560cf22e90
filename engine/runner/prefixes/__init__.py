"""Keeps what sequences have read, in RAM and on the disk, when their cells are used otherwise."""

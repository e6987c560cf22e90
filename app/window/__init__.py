"""The window's frame, its table of commands, and its program."""

"""The laboratory: verbs of the selection, steering, and what is taken from other answers."""

"""The functions behind the operations, a file a family: they compute in NumPy, a node at a time."""

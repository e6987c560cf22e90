"""Text architectures: one module each, found by `general.architecture` with "-" as "_".

A folder appended to `__path__` is searched as well: an architecture may live outside this package.
"""

"""Modules as Python's own parser reads them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """Return a module of the program, parsed once for all tests.

    A search for garbage while trees are made walks those that are kept: two thirds of the time.
    """
    text, searches = path.read_text("utf-8"), gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, str(path))
    finally:
        if searches:
            gc.enable()


@cache
def all_nodes(path: Path) -> list[ast.AST]:
    """Return the nodes of a module of the program, walked once for all tests."""
    return nodes(tree(path))


def nodes(of: ast.AST) -> list[ast.AST]:
    """Return what `ast.walk` does, in the same order and a third of the time."""
    found = [of]
    for node in found:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
    return found

"""The sources of this house, for tests that read them."""

import ast
from pathlib import Path

TRIES = 3


def tree_of(path: Path) -> ast.Module:
    """What a file says.

    CPython before 3.11.8 may raise SystemError here while another thread compiles something (python/cpython#106905): once more then.
    """
    text = path.read_text()
    for _ in range(TRIES - 1):
        try:
            return ast.parse(text, filename=path.name)
        except SystemError:
            continue
    return ast.parse(text, filename=path.name)

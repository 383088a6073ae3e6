"""What training scripts import on a node: `mizzen`, from the directory that the worker has put on `PYTHONPATH`.

`PYTHONPATH` is searched before installed packages. A package `mizzen` that the script's environment has installed is loaded in the
place of this one, so that the script's own always wins, whatever else that one has.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

__all__ = [
    "CallFailed",
    "CallLost",
    "CallRefused",
    "CallTooLarge",
    "FunctionError",
    "NoPlane",
    "checkpoint_of",
    "checkpoint_path",
    "function",
    "idle_gpus",
    "resume_from",
    "resume_step",
    "saved",
    "should_preempt",
    "watch_signals",
]


def _installed() -> "ModuleSpec | None":
    """Return the next `mizzen` that Python would find without this directory; None if there is none.

    Only places behind this directory are searched: each before it would have been found first, and two such directories on one path
    would otherwise send each other on for ever.
    """
    ours = Path(__file__).resolve().parents[1]
    path = sys.path
    places = [number for number, place in enumerate(path) if Path(place).resolve() == ours]
    if not places:
        return None
    sys.path = path[places[-1] + 1 :]
    try:
        for finder in sys.meta_path:
            spec = finder.find_spec(__name__, None) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None and spec.has_location:
                return spec
        return None
    finally:
        sys.path = path


# Under any other name this is the installed package's own copy (mizzen/__init__.py), which looks for no other.
_theirs = _installed() if __name__ == "mizzen" else None
if _theirs is not None and _theirs.loader is not None:
    _module = importlib.util.module_from_spec(_theirs)
    sys.modules[__name__] = _module  # The import that is under way returns the module that it finds here.
    _theirs.loader.exec_module(_module)
else:
    from .functions import (
        CallFailed,
        CallLost,
        CallRefused,
        CallTooLarge,
        FunctionError,
        NoPlane,
        function,
    )
    from .lending import idle_gpus
    from .task import (
        checkpoint_of,
        checkpoint_path,
        resume_from,
        resume_step,
        saved,
        should_preempt,
        watch_signals,
    )

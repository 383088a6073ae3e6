"""The public face of Mizzen: what people type and see, and what their training scripts and controllers import.

The command line is here, and whatever it runs lies below. What a training script needs is named here, and is all that is
loaded for it; what controllers and functions need is loaded when it is first asked for.
"""

import importlib

from mizzen.sdk.mizzen.functions import (
    CallFailed,
    CallLost,
    CallRefused,
    CallTooLarge,
    FunctionError,
    NoPlane,
)
from mizzen.sdk.mizzen.lending import idle_gpus
from mizzen.sdk.mizzen.task import (
    checkpoint_of,
    checkpoint_path,
    resume_from,
    resume_step,
    saved,
    should_preempt,
    watch_signals,
)

TYPE_CHECKING = False
"""What tools that read types take for true; the module that has it would cost a script more than all of ours."""

if TYPE_CHECKING:
    from core.messages.control import TaskControlRequest
    from core.nouns.operation import Ack, Answer, OperationKind, job_and_rank, task_number
    from mizzen.functions.decorator import Function, function
    from runtime.control.controller import TaskController

__all__ = [
    "Ack",
    "Answer",
    "CallFailed",
    "CallLost",
    "CallRefused",
    "CallTooLarge",
    "Function",
    "FunctionError",
    "NoPlane",
    "OperationKind",
    "TaskControlRequest",
    "TaskController",
    "checkpoint_of",
    "checkpoint_path",
    "function",
    "idle_gpus",
    "job_and_rank",
    "resume_from",
    "resume_step",
    "saved",
    "should_preempt",
    "task_number",
    "watch_signals",
]

_LATER = {
    "Ack": "core.nouns.operation",
    "Answer": "core.nouns.operation",
    "Function": "mizzen.functions.decorator",
    "OperationKind": "core.nouns.operation",
    "TaskControlRequest": "core.messages.control",
    "TaskController": "runtime.control.controller",
    "function": "mizzen.functions.decorator",
    "job_and_rank": "core.nouns.operation",
    "task_number": "core.nouns.operation",
}
"""Where each is that only controllers and functions need."""


def __getattr__(name: str) -> object:
    """Load what is asked for, once."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """All that can be asked for."""
    return sorted({*globals(), *_LATER})

"""The public face of Mizzen: what people type and see, and what their training scripts import.

The command line is here, and whatever it runs lies below. What a training script needs is named here.
"""

from mizzen.task import checkpoint_path, resume_from, resume_step, saved, should_preempt, watch_signals

__all__ = ["checkpoint_path", "resume_from", "resume_step", "saved", "should_preempt", "watch_signals"]

"""Whether this machine is well: its GPUs are asked now and then, through NVML, where there are any.

A device that was there when the worker's process began and is gone now, that cannot be asked, or that says that its memory
had errors which could not be corrected, is ill until it says otherwise. Without NVML nothing is ever ill.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from core.nouns.fleet import UNNUMBERED
from core.nouns.instant import Instant, after
from core.nouns.limits import HEALTH_LOOK
from runtime.tasks.slots import Device

logger = structlog.get_logger()


class Health:
    """Of one machine, which is one node."""

    def __init__(self, devices: Sequence[Device], changed: Callable[[], None]) -> None:
        """`changed` is called when a look in time finds another health than the one before."""
        self.ill: tuple[tuple[int, str], ...] = ()
        """As in `NodesLooked`."""
        self._uuids = [device.uuid for device in devices if device.uuid]
        self._changed = changed
        self._looks_at = Instant(0)

    def look_in_time(self, now: Instant) -> Instant | None:
        """Look, if it is time to; when to look again, if ever."""
        if not self._uuids:
            return None
        if now >= self._looks_at:
            self._looks_at = after(now, HEALTH_LOOK)
            before = self.ill
            self.look()
            if self.ill != before:
                self._changed()
        return self._looks_at

    def look(self) -> None:
        """Ask every device now."""
        text = "; ".join(_ailments(self._uuids)) if self._uuids else ""
        ill = ((UNNUMBERED, text),) if text else ()
        if ill != self.ill:
            logger.warning("machine_health", ill=text)
        self.ill = ill


def _ailments(uuids: Sequence[str]) -> list[str]:
    """What is wrong with which of these devices."""
    try:
        import pynvml  # the `gpu` extra
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [f"the driver does not answer: {error}"]
    try:
        return [f"{uuid} {ailment}" for uuid in uuids if (ailment := _ailment(pynvml, uuid))]
    finally:
        pynvml.nvmlShutdown()


def _ailment(pynvml: Any, uuid: str) -> str:  # Any: a library without types
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        return f"is gone or does not answer: {error}"
    try:
        errors = pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    except pynvml.NVMLError:
        return ""  # Not every device counts them.
    return f"has had {errors} memory errors that were not corrected" if errors else ""

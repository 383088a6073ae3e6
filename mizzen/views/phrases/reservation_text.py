"""The start that a pending workload was promised, in words."""

from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.messages.queue import RegionOutlook, ShownStart
from core.nouns.starts import SENTENCES, StartOver
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.text import gpus_text, time_text


def promised_text(start: ShownStart) -> str:
    """By when it will have what it needs, where that is kept for it, and why no longer what was promised before."""
    when = f"in {time_text(start.starts_in)} at the latest" if start.starts_in else "was to be by now"
    before = f"; its earlier reservation was not kept: {start.sentence}" if start.sentence else ""
    return f"{when}, on nodes that {start.region} keeps for it; it may be sooner, there or elsewhere{before}"


def unbounded_text(outlook: RegionOutlook) -> str:
    """Why nothing could be promised there; empty where something could, or nobody asked."""
    if not outlook.unbounded_gpu_milli:
        return ""
    held = gpus_text(outlook.unbounded_gpu_milli)
    return f"no start can be reserved: {held} GPUs are held by work without a `max_duration`"


def promised_sentence(event: StartPromised) -> str:
    """What the queue promised."""
    why = (
        f", for its earlier reservation was not kept: {SENTENCES[StartOver(event.why)]}" if event.why else ""
    )
    return f"{event.region} is to reserve nodes for its start within {short_text(event.start_in)}{why}"


def reserved_sentence(event: StartReserved) -> str:
    """What the region keeps."""
    nodes = {node for spread in event.spreads for node in spread.nodes}
    return f"{len(nodes)} nodes are reserved for its start within {short_text(event.start_in)}"


def over_sentence(event: StartPromiseEnded | StartUnreserved) -> str:
    """Why a promise, or what was kept for it, is no more."""
    what = "its reservation" if isinstance(event, StartPromiseEnded) else "its node reservation"
    return f"{what} is over: {SENTENCES[event.reason]}"

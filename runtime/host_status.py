"""The status of a host: what it lost, dropped, refused or read again, how far it is behind, and for which word it waits."""

from typing import Any

from core.component import Counting
from core.messages.units import AsideMessage
from runtime.host import Host


class HostStatus:
    """A host, as far as its unit's status is concerned (runtime/status/unit_status.py, Told)."""

    def __init__(self, host: Host[Any]) -> None:
        self._host = host

    def losses(self) -> dict[str, int]:
        """Return what was lost, dropped, refused or read again since the start."""
        counts, followed = self._host.counts, [following.counts for following in self._host.followings]
        component, state = self._host.component, self._host.state
        own = component.losses(state) if isinstance(component, Counting) and state is not None else {}
        return {
            **own,
            "inbox_lost": counts.inbox_lost,
            "unexpected": counts.unexpected,
            "put_aside": counts.put_aside,
            "not_said": counts.not_said,
            "log_full": counts.log_full,
            "not_archived": self._host.log.not_archived if self._host.log is not None else 0,
            "gaps": sum(one.gaps for one in followed),
            "refused": sum(one.refused for one in followed),
        }

    def behind(self) -> int:
        """Return the number of announced facts that are not folded yet."""
        return sum(following.lag for following in self._host.followings)

    def waiting(self) -> int:
        """Return the number of messages in the inbox."""
        return self._host.waiting

    def put_aside(self) -> tuple[AsideMessage, ...]:
        """Return the sorts of messages that are not handled."""
        return self._host.suspects.told()

    def waits_for(self) -> str:
        """Return the operator's word for which the host waits, as a sentence; empty: none."""
        return self._host.guard.waits_for if self._host.guard is not None else ""

"""Emulated nodes that can go wrong: lose their power, stand still, be slow, be ill, or kill whatever runs on them."""

from collections.abc import Callable, Sequence

from core.messages.workers import NodesLooked, TasksPhase
from core.nouns.ids import ShareKey
from core.nouns.instant import Instant, Nanoseconds, after
from runtime.clock import Clock
from runtime.spool import EmulatedSpool, Share, step_after
from scenarios.worlds.overlapping import Lasting


class TroubledNodes(EmulatedSpool):
    """The nodes of one worker, and what they run."""

    def __init__(self, name: str, clock: Clock, nodes: Sequence[int] = ()) -> None:
        """`nodes`: the numbers of all of them."""
        super().__init__(name, clock)
        self._nodes = tuple(nodes)
        self.slow: Lasting[float] = Lasting()
        """What is started takes so many times as long: the slowest of them counts."""
        self.broken: Lasting[int] = Lasting()
        """What is started dies at once with this exit code: the newest counts."""
        self.ills: Lasting[str] = Lasting(self._tell_ill)
        """What is wrong with the hardware of all nodes, as a look at it finds: the newest counts."""
        self._paces: dict[ShareKey, float] = {}
        self._freezes: Lasting[None] = Lasting(self._freeze_or_thaw)
        self._frozen_at: Instant | None = None

    @property
    def factor(self) -> float:
        """How many times as long what is started takes."""
        return max(self.slow.values, default=1.0)

    @property
    def broken_exit_code(self) -> int:
        """With which what is started dies at once; 0: nothing is broken."""
        return self.broken.values[-1] if self.broken else 0

    @property
    def ill(self) -> tuple[tuple[int, str], ...]:
        """Every node, with what is wrong."""
        return tuple((node, self.ills.values[-1]) for node in self._nodes) if self.ills else ()

    def _tell_ill(self) -> None:
        if self._done is not None:
            self._done(NodesLooked(self.ill))

    @property
    def is_frozen(self) -> bool:
        """Whether they stand still."""
        return self._frozen_at is not None

    @property
    def moves_since(self) -> Instant:
        """When they have last stood still."""
        return self._still_until

    def lose_power(self) -> None:
        """All tasks are gone, and nothing is remembered but the fence. Frozen nodes are no longer frozen."""
        for key in list(self.shares):
            self.forget_share(key)
        if self.clearing is not None:
            self.clearing.forget()
        self._paces.clear()
        self._freezes.forget()
        self._frozen_at = None

    def forget_share(self, key: ShareKey) -> None:
        """It was never here."""
        self._forget(key, self._clock.now())

    def freeze(self) -> Callable[[], None]:
        """Nothing goes on. Returns what ends that: everything goes on where it stood, once nobody holds it any more."""
        return self._freezes.begin(None)

    def _freeze_or_thaw(self) -> None:
        if self._freezes and self._frozen_at is None:
            self._frozen_at = self._clock.now()
            self._wake.ring()
        elif not self._freezes and self._frozen_at is not None:
            self._thaw(self._frozen_at)

    def _thaw(self, frozen_at: Instant) -> None:
        now = self._still_until = self._clock.now()
        self._frozen_at = None
        for key, share in self.shares.items():
            if share.ends_at is None:
                continue
            lost = Nanoseconds(now - max(frozen_at, share.started_at))
            share.started_at = after(share.started_at, lost)
            share.paced_at = after(share.paced_at, lost)
            share.ends_at = after(share.ends_at, lost)
            if share.saves_at is not None:
                share.saves_at = after(share.saves_at, lost)
            self._schedule(key, share)

    def fail_all(self, exit_code: int, node: int | None = None) -> int:
        """Every share that runs dies, or every one that has a task on a node; how many those were."""
        failed = 0
        for key, share in list(self.shares.items()):
            is_struck = node is None or node in share.nodes
            if is_struck and share.state.phase == TasksPhase.RUNNING and self._frozen_at is None:
                self._end(key, share, exit_code, self._clock.now(), share.nodes if node is None else (node,))
                failed += 1
        return failed

    def catch_up(self, now: Instant) -> Instant | None:
        """As the nodes' own, unless they stand still."""
        return super().catch_up(now) if self._frozen_at is None else None

    def _fate_of(self, share: Share) -> Nanoseconds:
        span = super()._fate_of(share)
        if self.factor != 1.0:
            self._paces[share.state.key] = self.factor
        if self.broken_exit_code:
            share.exit_code, share.failed_nodes = self.broken_exit_code, share.nodes
            return Nanoseconds(1)
        return Nanoseconds(round(span * self.factor))

    def _set_up_of(self, share: Share) -> Nanoseconds:
        return Nanoseconds(round(super()._set_up_of(share) * self._paces.get(share.state.key, 1.0)))

    def _step(self, share: Share, at: Instant) -> int:
        pace = self._paces.get(share.state.key, 1.0)
        return step_after(share.command, int(self._ran(share, at) / pace))

    def _moving_until(self, now: Instant) -> Instant:
        return now if self._frozen_at is None else min(now, self._frozen_at)

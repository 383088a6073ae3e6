"""Calls of functions, as their callers and executors saw them: whether each ended once and rightly, and the figures of all."""

from collections import Counter, defaultdict

from msgspec import Struct

from core.events.functions import FunctionsCounted
from core.fact import Fact
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND
from core.nouns.workload import NEVER
from scenarios.accounting.attempts import percentile
from scenarios.workloads.functions import MadeCall


class CallKept(Struct):
    """One call that was made."""

    made: MadeCall
    called_at: float
    has_left: bool = False
    """Whether its caller left before there was an answer."""
    answer: CallAnswer | None = None
    answered_at: float = 0.0


class CallsKept:
    """Told of each call, of each begin where the world shows it, and of each answer."""

    def __init__(self) -> None:
        self.rows: dict[bytes, CallKept] = {}
        """By the arguments, of which no two calls have the same."""
        self.wrong: list[str] = []
        """What should not be, in sentences."""
        self._begun: Counter[bytes] = Counter()
        self._servers: defaultdict[FunctionId, set[str]] = defaultdict(set)
        """Servers that began calls of a function."""
        self._sees_begins = False
        self._counted = self._cold = 0
        """As regions' logs have them."""

    def take(self, fact: Fact) -> None:
        """A fact that became durable."""
        if isinstance(fact.event, FunctionsCounted):
            for one in fact.event.counts:
                self._counted += one.ended
                self._cold += sum(one.cold)

    def called(self, arguments: bytes, made: MadeCall, at: float) -> None:
        """A call was made."""
        assert arguments not in self.rows, made
        self.rows[arguments] = CallKept(made, at)

    def begun(self, arguments: bytes, server: str) -> None:
        """An executor began a call."""
        self._sees_begins = True
        self._begun[arguments] += 1
        self._servers[self.rows[arguments].made.function.id].add(server)

    def left(self, arguments: bytes) -> None:
        """The caller of a call left."""
        row = self.rows[arguments]
        row.has_left = row.answer is None

    def answered(self, arguments: bytes, answer: CallAnswer, at: float) -> None:
        """A caller got an answer."""
        row = self.rows[arguments]
        if row.answer is not None:
            self.wrong.append(f"{_text(row.made)} ended twice: {row.answer.outcome} and {answer.outcome}")
        row.answer, row.answered_at = answer, at
        if answer.outcome is CallOutcome.DONE and answer.value != arguments:
            self.wrong.append(f"{_text(row.made)} has the value of another call")
        if answer.outcome is CallOutcome.LOST and not (row.made.is_once or row.made.within != NEVER):
            self.wrong.append(f"{_text(row.made)} is lost, though it may be begun again at any time")

    def problems(self) -> list[str]:
        """Return what should not be; once no more calls are made and all are to have ended."""
        found = [*self.wrong]
        for arguments, row in self.rows.items():
            begun = self._begun[arguments]
            if row.answer is None and not row.has_left:
                found.append(f"{_text(row.made)} has no answer")
            if row.made.is_once and begun > 1:
                found.append(f"{_text(row.made)} may be begun once, and was begun {begun} times")
            if row.answer is not None and row.answer.outcome is CallOutcome.DONE and self._sees_begins:
                found += [f"{_text(row.made)} was done, and never begun"] * (not begun)
            if (
                row.made.is_once
                and begun
                and row.answer is not None
                and row.answer.outcome is CallOutcome.REFUSED
            ):
                found.append(f"{_text(row.made)} was refused, and begun")
        return found

    def figures(self) -> dict[str, float]:
        """Return the figures of a run that ends now."""
        outcomes = Counter(row.answer.outcome for row in self.rows.values() if row.answer is not None)
        done = [
            row
            for row in self.rows.values()
            if row.answer is not None and row.answer.outcome is CallOutcome.DONE
        ]
        delays = sorted(row.answered_at - row.called_at - row.made.run_time / SECOND for row in done)
        servers = sorted(float(len(names)) for names in self._servers.values())
        return {
            "calls": float(len(self.rows)),
            **{f"calls_{one}": float(outcomes[one]) for one in CallOutcome},
            "calls_left": float(sum(row.has_left for row in self.rows.values())),
            "calls_done_share": outcomes[CallOutcome.DONE] / max(1, sum(outcomes.values())),
            "calls_begun_again": float(sum(max(0, begun - 1) for begun in self._begun.values())),
            "calls_counted": float(self._counted),
            "calls_cold_share": self._cold / max(1, self._counted),
            "function_servers_p50": percentile(servers, 0.5),
            "function_servers_max": max(servers, default=0.0),
            "p50_call_delay_seconds": percentile(delays, 0.5),
            "p99_call_delay_seconds": percentile(delays, 0.99),
        }


def _text(made: MadeCall) -> str:
    return f"a call of {made.function.name} of {made.function.tenant} at {made.at:.3f} s"

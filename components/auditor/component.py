"""The auditor: follows every log and checks the invariants (core/invariants/) at consistent cuts.

A fact that cites a fact of another log waits until the cited fact is folded, so compared images were true at one time. When
a log is adopted late or again, checks across logs wait until every fact cited by the image is folded.

Violations are told as `ViolationsFound` and kept in a file by the host (`KeepViolations`), so that they outlive the auditor, until an
operator acknowledges them up to a number.
"""

from collections import deque

from msgspec.structs import asdict

from components.auditor.roster import Roster
from components.replies import answered
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.effects import KeepViolations, PutViolationsAside
from core.events.region import ClaimGranted
from core.fact import NO_LOG, Fact, Note
from core.images import GlobalImage, Image, RegionImage
from core.invariants.consistency import (
    Violation,
    check_devices,
    check_global_fact,
    check_ledger,
    check_nodes_balance,
    check_one_live,
    check_region_fact,
    check_workloads,
    citation_of,
)
from core.invariants.control import check_control
from core.invariants.data import check_data
from core.invariants.harvest import RecallWatch, check_harvested
from core.invariants.moves import check_move
from core.invariants.pipelines import check_pipeline_fact
from core.invariants.quota import check_quota
from core.invariants.sharing import SharedBook, check_border, fold_checked
from core.messages.auditor import (
    AcknowledgeViolations,
    AuditShown,
    FoundViolation,
    ShowAudit,
    ViolationsAcknowledged,
    ViolationsFound,
    ViolationsKept,
)
from core.messages.base import Envelope, Message, Woken
from core.messages.units import ShowUnits, UnitStatus
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log, region_of
from core.nouns.instant import Instant, after
from core.nouns.limits import AUDIT_INTERVAL, VIOLATIONS_TOLD_MAX
from core.placing.index.owners import Owners
from core.touched import touched_by
from core.violation_book import ViolationBook

OF_THE_QUEUE = (
    "workloads",
    "pipelines",
    "awards",
    "regions",
    "datasets",
    "tenants",
    "usage",
    "start_promises",
    "sharing",
    "data_settings",
    "copies",
)
"""Sections of the queue's image that checks read; the inputs of estimates and prices are not checked."""

AT_ONCE = Instant(0)
IMPOSSIBLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by the check or the fold of a fact that does not follow from the facts before."""


class Audited(Note, frozen=True):
    """A full check was made."""

    violations: tuple[Violation, ...]


class ViolationsTold(Note, frozen=True):
    """So many of the violations found were told and handed over to be kept."""

    count: int


class Acknowledged(Note, frozen=True):
    """An operator has acknowledged the violations up to a number."""

    up_to: int


class KeptKnown(Note, frozen=True):
    """The violations that earlier lives have found are known."""

    violations: tuple[FoundViolation, ...]
    count: int
    acknowledged: int


class StatusHeard(Note, frozen=True):
    """A unit has told its status."""

    status: UnitStatus


class AuditorState:
    """Images of all logs at one consistent cut, and the facts beyond the cut."""

    def __init__(self, at: Instant, units: tuple[str, ...] = ()) -> None:
        self.images: dict[LogName, Image] = {}
        self.sequences: dict[LogName, int] = {}
        self.queue: GlobalImage | None = None
        self.regions: dict[RegionName, RegionImage] = {}
        """The images of regions by name, the same objects as in `images`."""
        self.owners: dict[RegionName, Owners] = {}
        """Memo: the owners of each region's nodes."""
        self.recalls: dict[RegionName, RecallWatch] = {}
        """Memo: the oldest overdue recall of each region."""
        self.shared: SharedBook | None = None
        """Memo: what the queue's log alone says of shared pools; None where the log is not known."""
        self.ahead: dict[LogName, deque[Fact]] = {}
        self.waiting = 0
        """Facts beyond the cut."""
        self.rests_on: dict[LogName, int] = {}
        """Newest sequence by log that adopted images cite and that is not folded; until then checks across logs are skipped."""
        self.given_up: set[LogName] = set()
        """Logs with a fact that could not be folded; they are not checked from there on."""
        self.book: ViolationBook[Violation] = ViolationBook()
        self.untold: deque[Violation] = deque()
        self.roster = Roster(units, at)
        self.audit_at = at
        self.has_changed = False

    @property
    def violations(self) -> list[Violation]:
        """The violations that are not acknowledged, `VIOLATIONS_KEPT_MAX` at most."""
        return list(self.book.kept.values())

    @property
    def told(self) -> int:
        """The number of the newest violation that was told and is kept beyond this life."""
        return self.book.newest - len(self.untold)


class Auditor:
    """One auditor of all logs."""

    name = "auditor"
    noun = "auditor"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        ShowAudit,
        AcknowledgeViolations,
        ViolationsKept,
        UnitStatus,
        ShowUnits,
    )

    def __init__(self, regions: tuple[RegionName, ...], units: tuple[str, ...] = ()) -> None:
        """`units` are the names of the plan's units, which are listed also before they have told their status."""
        self.units = units
        self.follows = (
            Follow(GLOBAL_LOG, OF_THE_QUEUE, is_required=False),
            *(Follow(region_log(region), (), is_required=False) for region in sorted(regions)),
        )

    def initial(self, images: Images) -> AuditorState:
        """Return the state of the logs known at the start; the others arrive by `ImageAdopted`."""
        state = AuditorState(images.at, self.units)
        for log, (image, sequence) in images.followed.items():
            self._adopt(state, log, image, sequence)
        return state

    def due(self, state: AuditorState) -> Instant | None:
        """Return the time of the next full check; at once while violations are untold."""
        return AT_ONCE if state.untold else self.audit_due(state)

    def losses(self, state: AuditorState) -> dict[str, int]:
        """Return the statuses that the roster did not keep."""
        return {"units_not_kept": state.roster.not_kept}

    def audit_due(self, state: AuditorState) -> Instant | None:
        """Return the time of the next full check; None while no fact and no image has come since the last."""
        return state.audit_at if state.has_changed else None

    def decide(self, state: AuditorState, envelope: Envelope) -> Decision:
        """Make a full check, tell of violations, or answer."""
        match envelope.message:
            case Woken():
                return (
                    _told(state)
                    if state.untold
                    else Decision(events=(Audited(tuple(self.full_check(state))),))
                )
            case ShowAudit():
                book = state.book
                found = tuple(_found(violation, number) for number, violation in book.kept.items())
                return answered(
                    AuditShown(dict(state.sequences), state.waiting, found, book.count, state.told)
                )
            case AcknowledgeViolations(up_to):
                done = state.book.unacknowledged(up_to) if up_to <= state.told else 0
                if not done:
                    return answered(ViolationsAcknowledged(0))
                return Decision(
                    (Acknowledged(up_to),), (ViolationsAcknowledged(done),), (PutViolationsAside(up_to),)
                )
            case ViolationsKept(violations, count, acknowledged):
                return Decision(events=(KeptKnown(violations, count, acknowledged),))
            case UnitStatus() as status:
                return Decision(events=(StatusHeard(status),))
            case ShowUnits(behind):
                return answered(state.roster.shown(behind, envelope.at))
        return NOTHING

    def evolve(self, state: AuditorState, fact: Fact) -> AuditorState:
        """Take a fact, and fold the facts that may join the cut now."""
        if fact.log in state.given_up:
            return state
        if fact.log != NO_LOG:
            state.has_changed = True
            ahead = state.ahead[fact.log]
            if ahead or not self._is_in_reach(state, fact):
                ahead.append(fact)
                state.waiting += 1
            else:
                self._fold(state, fact.log, fact)
            if state.waiting:
                self._advance(state)
            return state
        match fact.event:
            case Audited(violations):
                known = {(one.rule, one.log, one.text) for one in state.violations}
                for violation in violations:
                    if (violation.rule, violation.log, violation.text) not in known:
                        self._keep(state, violation)  # What stands since an earlier check is one violation.
                state.audit_at = after(fact.at, AUDIT_INTERVAL)
                state.has_changed = False
            case ImageAdopted(log, image, sequence):
                self._adopt(state, log, image, sequence)
                self._advance(state)
            case StatusHeard(status):
                state.roster.hear(status, fact.at)
            case ViolationsTold(count):
                for _ in range(count):
                    state.untold.popleft()
            case Acknowledged(up_to):
                state.book.acknowledge(up_to)
            case KeptKnown(violations, count, acknowledged):
                state.book = _continued(violations, ViolationBook({}, count, acknowledged), state.book)
        return state

    def _adopt(self, state: AuditorState, log: LogName, image: Image, sequence: int) -> None:
        state.has_changed = True
        state.given_up.discard(log)
        state.images[log] = image
        state.sequences[log] = sequence
        state.waiting -= len(state.ahead.get(log, ()))
        state.ahead[log] = deque()
        if state.rests_on.get(log, 0) <= sequence:
            state.rests_on.pop(log, None)  # The image has the facts that others cite.
        if isinstance(image, GlobalImage):
            state.queue = image
            state.shared = SharedBook(image.sharing)
            for region, cited in image.regions.sequences.items():
                self._rest_on(state, region_log(region), cited)
        elif isinstance(image, RegionImage):
            state.regions[region_of(log)] = image
            state.owners[region_of(log)] = Owners.of(image.capacity)
            state.recalls.pop(region_of(log), None)
            self._rest_on(state, GLOBAL_LOG, image.attempts.global_sequence)

    def _rest_on(self, state: AuditorState, log: LogName, sequence: int) -> None:
        if log not in state.given_up and state.sequences.get(log, 0) < sequence:
            state.rests_on[log] = max(sequence, state.rests_on.get(log, 0))

    def _advance(self, state: AuditorState) -> None:
        """Fold waiting facts that cite only folded facts, until no more can be folded."""
        has_moved = True
        while has_moved:
            has_moved = False
            for log, facts in state.ahead.items():
                while facts and self._is_in_reach(state, facts[0]):
                    self._fold(state, log, facts.popleft())
                    state.waiting -= 1
                    has_moved = True

    def _is_in_reach(self, state: AuditorState, fact: Fact) -> bool:
        cited = citation_of(fact.event)
        return cited is None or cited[0] in state.given_up or state.sequences.get(cited[0], 0) >= cited[1]

    def _fold(self, state: AuditorState, log: LogName, fact: Fact) -> None:
        image = state.images[log]
        try:
            if isinstance(image, GlobalImage):
                self._check_global(state, fact, image)
            else:
                assert isinstance(image, RegionImage), log
                self._check_region(state, fact, region_of(log), image)
        except IMPOSSIBLE as error:
            self._give_up(state, fact, error)
            return
        state.sequences[log] = fact.sequence
        if state.rests_on.get(log, 0) <= fact.sequence:
            state.rests_on.pop(log, None)

    def _give_up(self, state: AuditorState, fact: Fact, error: Exception) -> None:
        """Tell of a fact that cannot follow from those before; check its log no longer, and no other log against it."""
        log = fact.log
        text = f"{fact.event.__struct_config__.tag} cannot be folded ({error!r}); the log is not checked from here on"
        self._keep(state, Violation(7, log, fact.sequence, text))
        state.given_up.add(log)
        state.rests_on.pop(log, None)
        state.waiting -= len(state.ahead[log])
        state.ahead[log].clear()
        del state.images[log]
        if log == GLOBAL_LOG:
            state.queue = state.shared = None
        else:
            del state.regions[region_of(log)], state.owners[region_of(log)]

    def _check_global(self, state: AuditorState, fact: Fact, image: GlobalImage) -> None:
        for text in check_global_fact(fact, image, {} if state.rests_on else state.regions):
            self._keep(state, Violation(3, fact.log, fact.sequence, text))
        for text in check_move(fact, image, {} if state.rests_on else state.regions):
            self._keep(state, Violation(3, fact.log, fact.sequence, text))
        for text in check_pipeline_fact(fact, image):
            self._keep(state, Violation(3, fact.log, fact.sequence, text))
        for text in check_data(fact, image):
            self._keep(state, Violation(2, fact.log, fact.sequence, text))
        for text in check_quota(fact, image):
            self._keep(state, Violation(4, fact.log, fact.sequence, text))
        assert state.shared is not None, "known with the image"
        for text in fold_checked(fact, image, state.shared):
            self._keep(state, Violation(4, fact.log, fact.sequence, text))

    def _check_region(self, state: AuditorState, fact: Fact, region: RegionName, image: RegionImage) -> None:
        queue = None if state.rests_on else state.queue
        owners = state.owners[region]
        for rule, text in check_region_fact(region, fact, image, queue, owners):
            self._keep(state, Violation(rule, fact.log, fact.sequence, text))
        for rule, text in check_border(fact, image):
            self._keep(state, Violation(rule, fact.log, fact.sequence, text))
        nodes, harvested = touched_by(image.capacity, fact), image.harvest.touched_by(fact)
        image.fold(fact)
        owners.hear(image.capacity, fact)
        for text in (*check_nodes_balance(image.capacity, nodes), *check_devices(image.capacity, nodes)):
            self._keep(state, Violation(1, fact.log, fact.sequence, text))
        watch = state.recalls.setdefault(region, RecallWatch())
        for text in (*check_harvested(image, sorted({*nodes, *harvested})), *watch.look(fact.at, image)):
            self._keep(state, Violation(1, fact.log, fact.sequence, text))
        if isinstance(fact.event, ClaimGranted) and not state.rests_on:
            for text in check_one_live(fact.event.workload, state.regions, state.queue):
                self._keep(state, Violation(3, fact.log, fact.sequence, text))

    def full_check(self, state: AuditorState) -> list[Violation]:
        """Return the violations of every check over whole images, computed from scratch."""
        found = [
            Violation(rule, region_log(region), state.sequences[region_log(region)], text)
            for region, image in sorted(state.regions.items())
            for rule, texts in ((1, check_ledger(image.capacity)), (6, check_control(image)))
            for text in texts
        ]
        if state.queue is not None:
            sequence = state.sequences[GLOBAL_LOG]
            found.extend(Violation(3, GLOBAL_LOG, sequence, text) for text in check_workloads(state.queue))
        return found

    def _keep(self, state: AuditorState, violation: Violation) -> None:
        state.book.add(violation)
        state.untold.append(violation)


def _continued(
    earlier: tuple[FoundViolation, ...], book: ViolationBook[Violation], own: ViolationBook[Violation]
) -> ViolationBook[Violation]:
    """Return the book of earlier lives, continued with this life's violations, of which none was told or acknowledged yet."""
    book.kept = {one.number: Violation(one.rule, one.log, one.sequence, one.text) for one in earlier}
    for violation in own.kept.values():
        book.add(violation)
    book.count += own.count - len(own.kept)
    return book


def _told(state: AuditorState) -> Decision:
    """Return the decision that tells of the oldest untold violations, and has them kept."""
    told = tuple(
        _found(violation, number)
        for violation, number in zip(
            state.untold, range(state.told + 1, state.told + 1 + VIOLATIONS_TOLD_MAX), strict=False
        )
    )
    return Decision(
        (ViolationsTold(len(told)),), (ViolationsFound(told, state.book.count),), (KeepViolations(told),)
    )


def _found(violation: Violation, number: int) -> FoundViolation:
    return FoundViolation(**asdict(violation), number=number)

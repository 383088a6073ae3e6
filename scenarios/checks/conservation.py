"""No workload is lost and none is made up: submitted = pending + running + ended, and each answer stays true."""

from collections import Counter

from core.nouns.reasons import Reason
from scenarios.check import Check, Run


class Conservation(Check, frozen=True):
    """What users were told of, the queue's log has, once; and nothing else."""

    async def at_end(self, run: Run) -> list[str]:
        """Accepted and not there, there and never asked for, accepted twice, refused; a deadline that cannot be met is refused rightly."""
        witness, users = run.witness, run.users
        found = []
        accepted = users.workloads()
        recorded = witness.submitted_at
        lost = [workload for workload in accepted if workload not in recorded]
        found += [f"{workload} was accepted, and no log has it" for workload in lost]
        twice = [workload for workload, count in sorted(Counter(accepted).items()) if count > 1]
        found += [f"{workload} is the answer to more than one submission" for workload in twice]
        found += [
            f"{key} was refused: {refused.sentence}"
            for key, refused in sorted(users.refused.items())
            if refused.reason != Reason.INFEASIBLE
        ]
        known = witness.known_before + len(accepted)
        if users.has_submitted_all and len(recorded) != known:
            found.append(f"{len(recorded)} workloads are recorded, and {known} were accepted")
        rows = witness.queue.workloads.rows
        gone = [workload for workload in recorded if workload not in rows and workload not in witness.ended]
        found += [f"{workload} is neither pending, running nor ended" for workload in gone]
        return found

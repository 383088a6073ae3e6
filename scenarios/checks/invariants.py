"""What DESIGN §11 says must always hold, at every fact that became durable, and as the plane's own auditor found it."""

import asyncio

from core.messages.auditor import AuditShown, ShowAudit
from scenarios.check import Check, Run

AUDITOR_SECONDS = {"simulated": 60.0, "processes": 20.0}
"""For the plane's auditor to come up to the heads of all logs. It takes a hundredth of a second."""
AGAIN_SECONDS = 0.25


class Invariants(Check, frozen=True):
    """The witness checks each fact as it becomes durable, and a violation ends the run. This asks what is left."""

    async def in_calm(self, run: Run) -> list[str]:
        """What the plane's own auditor found, once it has seen all that the witness saw."""
        shown: AuditShown | None = None
        try:
            async with asyncio.timeout(AUDITOR_SECONDS[run.world.world]):
                while True:
                    answer = await run.users.insist(ShowAudit())
                    assert isinstance(answer, AuditShown), answer
                    shown = answer
                    late = _late(run, shown)
                    if not late:
                        break
                    await run.world.sleep(AGAIN_SECONDS)
        except TimeoutError:
            if shown is None:
                return ["the plane's auditor does not answer"]
        found = [f"the plane's auditor has {text}" for text in _late(run, shown)]
        if shown.count:
            first = "".join(f": rule {one.rule}: {one.text}" for one in shown.violations[:1])
            found.append(f"the plane's auditor found {shown.count} violations{first}")
        return found

    async def at_end(self, run: Run) -> list[str]:
        """Facts that rest on nothing; and everything checked anew, whose violations are the witness's."""
        witness = run.witness
        witness.check_all()
        waiting = witness.audit.waiting
        return [f"{waiting} facts rest on facts of other logs that are not there"] if waiting else []


def _late(run: Run, shown: AuditShown) -> list[str]:
    """How far behind the logs the auditor is."""
    for log in run.witness.logs:
        run.world.look(log)
    return [
        f"checked {shown.checked.get(log, 0)} of the {count} facts of {log}"
        for log in run.witness.logs
        if shown.checked.get(log, 0) < (count := run.witness.facts[log])
    ]

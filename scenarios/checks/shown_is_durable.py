"""What users are shown has happened: an answer comes from what is durable, never from what a crash could still undo."""

from core.messages.base import Message
from core.messages.pipelines import PipelineCancelled
from core.messages.queue import Acknowledged, CancelWorkload, HoldWorkload, ReleaseWorkload, WorkloadShown
from core.nouns.ids import GLOBAL_LOG
from core.nouns.workload import Phase
from scenarios.check import Check, Run


class ShownIsDurable(Check, frozen=True):
    """Each answer to a user, compared with the queue's durable log when it is heard."""

    def begin(self, run: Run) -> None:
        """Listen to what users hear."""
        witness, found = run.witness, run.users.problems

        def heard(asked: Message, answer: Message) -> None:
            run.world.look(GLOBAL_LOG)
            rows = witness.queue.workloads.rows
            if isinstance(answer, WorkloadShown):
                row = rows.get(answer.workload)
                if row is None and answer.workload not in witness.ended:
                    found.append(f"{answer.workload} was shown, and no durable fact tells of it")
                elif row is not None and row.epoch < answer.epoch:
                    found.append(
                        f"{answer.workload} was shown in epoch {answer.epoch}, and it is in {row.epoch}"
                    )
                elif row is not None and Phase(answer.phase).is_terminal and not row.phase.is_terminal:
                    found.append(f"{answer.workload} was shown {answer.phase}, and it is {row.phase}")
                elif row is not None and row.hold_revision < answer.hold_revision:
                    found.append(f"{answer.workload} was shown with a hold that is not durable")
            elif isinstance(answer, Acknowledged):
                row = rows.get(answer.workload)
                if row is None or row.phase.is_terminal:
                    return
                if isinstance(asked, CancelWorkload) and not row.is_cancel_requested:
                    found.append(f"the cancel of {answer.workload} was acknowledged, and is not durable")
                if isinstance(asked, HoldWorkload | ReleaseWorkload) and row.hold_revision < answer.revision:
                    found.append(f"the hold of {answer.workload} was acknowledged, and is not durable")

            elif isinstance(answer, PipelineCancelled):
                pipeline = witness.queue.pipelines.rows.get(answer.pipeline)
                for stage in pipeline.stages if pipeline is not None else ():
                    row = rows.get(stage.workload)
                    if row is not None and not row.phase.is_terminal and not row.is_cancel_requested:
                        found.append(f"the cancel of {answer.pipeline} was answered, and is not durable")

        run.users.heard.append(heard)

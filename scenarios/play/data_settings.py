"""What operators and the planner say of data in a scenario: through the bus, and insisting."""

from core.messages.base import Answer, Message, Refused
from core.messages.copies import DataPlanAnswered, DataPlanShown, SetDataPlan, ShowDataPlan
from core.messages.data import (
    DatasetAnswered,
    DataSettingAnswered,
    DataSettingsShown,
    SetDataPolicy,
    SetDataset,
    SetLink,
    SetStorage,
    ShowDataSettings,
)
from core.nouns.data import DataFigures, DataPolicy, PlannedAction
from core.nouns.ids import DatasetName, RegionName
from core.nouns.reasons import Reason
from scenarios.play.operators import OPERATOR, TRIES_MAX
from scenarios.schema.data import GB, MB, DataFleetSpec
from scenarios.users import Users


async def state_data(users: Users, regions: tuple[RegionName, ...], spec: DataFleetSpec) -> list[str]:
    """State storage, links, the policy and the datasets of a fleet. Return each refusal."""
    words: list[tuple[Message, type[Answer]]] = [
        (SetDataPolicy(spec.policy, 0, OPERATOR), DataSettingAnswered)
    ]
    for region in regions:
        words.append((SetStorage(region, round(spec.storage_gb * GB), 0, OPERATOR), DataSettingAnswered))
        for other in regions:
            if other != region:
                rate = round(spec.link_mb_per_second * MB)
                words.append((SetLink(region, other, rate, 0, OPERATOR), DataSettingAnswered))
    for name, one in spec.named().items():
        there = tuple(RegionName(region) for region in (one.home, *one.copies))
        size = round(one.gb * GB)
        said = SetDataset(DatasetName(name), there, there[0], 0, OPERATOR, size, one.pinned)
        words.append((said, DatasetAnswered))
    problems = []
    for word, expected in words:
        answer = await users.insist(word)
        if not isinstance(answer, expected):
            problems.append(f"data was not stated: {word} is answered with {answer}")
    return problems


async def plan_data(users: Users, actions: tuple[PlannedAction, ...]) -> list[str]:
    """Record a plan for data, as the planner does. Return why that was refused; empty: it was not."""
    answer: Message | None = None
    size = sum(action.bytes for action in actions)
    for _ in range(TRIES_MAX):
        shown = await users.insist(ShowDataPlan())
        assert isinstance(shown, DataPlanShown), shown
        plan = SetDataPlan(shown.number + 1, 0, actions, 0, size, DataFigures(), DataFigures(), by=OPERATOR)
        answer = await users.insist(plan)
        if isinstance(answer, DataPlanAnswered):
            return []
        assert isinstance(answer, Refused), answer
        if answer.reason != Reason.SUPERSEDED:
            break
    return [f"data was not planned: {answer}"]


async def set_data_policy(users: Users, policy: DataPolicy) -> list[str]:
    """Set the policy for data. Return why that was refused; empty: it was not."""
    answer: Message | None = None
    for _ in range(TRIES_MAX):
        shown = await users.insist(ShowDataSettings())
        assert isinstance(shown, DataSettingsShown), shown
        answer = await users.insist(SetDataPolicy(policy, shown.policy_revision, OPERATOR))
        if isinstance(answer, DataSettingAnswered):
            return []
        assert isinstance(answer, Refused), answer
        if answer.reason != Reason.SUPERSEDED:
            break
    return [f"the policy for data was not set: {answer}"]

"""What operators state of data at the start of a scenario: as commands do it, through the bus, and insisting."""

from core.messages.base import Answer, Message
from core.messages.data import (
    DatasetAnswered,
    DataSettingAnswered,
    SetDataPolicy,
    SetDataset,
    SetLink,
    SetStorage,
)
from core.nouns.ids import DatasetName, RegionName
from scenarios.play.operators import OPERATOR
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

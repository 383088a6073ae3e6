"""Words from outside the plane: under one's own signature, under no other, and with no answer to anybody."""

import pytest

from bus.catalogue import (
    inbox_of_controller,
    is_forged,
    is_signed,
    pattern_of,
    subject_of,
    subjects_of_controller,
)
from bus.errors import BadSubject
from bus.port import Address
from core.codec import Parcel, encode
from core.messages.base import Message, Refused
from core.messages.control import OperateTasks, ShowControllers, TaskControlResponse
from core.messages.queue import CancelWorkload
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.operation import OperationKind
from tests.bus.worlds import FLEET, World, in_both_worlds

EU = RegionName("eu")
CONTROL = Address("control", (EU,))


def word(tenant: str = "ml", controller: str = "web", region: str = EU) -> TaskControlResponse:
    """A controller's answer."""
    return TaskControlResponse(
        RegionName(region), TenantName(tenant), controller, WorkloadId("w-1"), 1, 7, ()
    )


def parcel(message: Message) -> Parcel:
    """As a stranger could fill it who has our source."""
    return Parcel("stranger.1", "queue", message)


def raw(message: Message) -> bytes:
    """The same on the wire."""
    return encode(parcel(message))


def test_signature_stands_in_the_verb() -> None:
    """So that one pattern hears all of a region's control, and a server's permissions can allow one name alone."""
    subject = subject_of(FLEET, word())
    assert f"{FLEET}.control.eu.task_control_response/ml/web" == subject
    assert subject.rpartition(".")[0] + ".*" == pattern_of(FLEET, CONTROL)
    heard, said = subjects_of_controller(FLEET, "ml", "web")
    assert f"{FLEET}.controller.ml.web.*" == heard
    assert subject == said.replace("*", "eu")
    assert "_INBOX.controller.ml.web" == inbox_of_controller("ml", "web")
    assert is_signed(subject)
    assert not is_signed(subject_of(FLEET, ShowControllers(EU)))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "*", ">", "a\n", "é"])
def test_bad_names_have_no_signature(name: str) -> None:
    """A slash could be somebody else's signature; a dot or a wildcard could be heard by others."""
    for names in ((name, "web"), ("ml", name)):
        with pytest.raises(BadSubject):
            subjects_of_controller(FLEET, *names)
        with pytest.raises(BadSubject):
            subject_of(FLEET, word(*names))


def test_forgeries_are_told() -> None:
    """Another's name, another region, a word that needs no signature under one, one that does without, and an answer."""
    mine = subject_of(FLEET, word())
    assert not is_forged(FLEET, mine, parcel(word()))
    assert not is_forged(FLEET, subject_of(FLEET, word_of_a_user()), parcel(word_of_a_user()))
    operate = OperateTasks(EU, WorkloadId("w-1"), 1, OperationKind.STOP, (), "")
    for forged in (
        word("ml", "db"),
        word("x", "web"),
        word(region="us"),
        word("a b"),
        operate,
        ShowControllers(EU),
        Refused("no", "No."),
    ):
        assert is_forged(FLEET, mine, parcel(forged)), forged
    for subject in (f"{FLEET}.control.eu.show_controllers", f"{FLEET}.store.eu.operate_tasks"):
        assert is_forged(FLEET, subject, parcel(word())), subject


def word_of_a_user() -> CancelWorkload:
    """One that needs no signature."""
    return CancelWorkload(WorkloadId("w-1"))


@in_both_worlds
async def test_forged_words_are_dead_letters(world: World) -> None:
    """They are counted and set aside, whatever they are; the next one that is genuine is heard."""
    heard: list[Message] = []
    hearer, speaker = await world.endpoint("hearer"), await world.endpoint("speaker")
    await hearer.listen(CONTROL, lambda parcel, _: heard.append(parcel.message))
    mine = subject_of(FLEET, word())
    for forged in (word("ml", "db"), ShowControllers(EU), Refused("no", "No.")):
        await world.deliver_raw(mine, raw(forged))
    await world.deliver_raw(f"{FLEET}.control.eu.show_controllers", raw(word()))
    speaker.say(word())
    await world.until(lambda: bool(heard))
    await world.settle()
    assert ([word()], 4) == (heard, hearer.counts.dead_letters)


@in_both_worlds
async def test_signed_words_are_never_answered(world: World) -> None:
    """Where its answer goes is for the speaker to name, and could be anybody's subject: a stranger would speak through us."""
    replies: list[str] = []
    hearer, speaker = await world.endpoint("hearer"), await world.endpoint("speaker")
    await hearer.listen(CONTROL, lambda _, reply_to: replies.append(reply_to))
    through = f"{FLEET}.store.eu.operate_tasks"
    speaker.say(word(), through)
    await world.until(lambda: bool(replies))
    speaker.say(ShowControllers(EU), through)
    await world.until(lambda: len(replies) == 2)
    assert ["", through] == replies

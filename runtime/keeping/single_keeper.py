"""One log, one keeper: whoever is about to open a log asks whether another answers for it. Two would write two histories."""

from bus.errors import AskTimedOut, NobodyListens
from bus.port import Bus
from core.codec import Parcel
from core.messages.logs import AcceptClock, AskHead, ClockWord, HeadAnswer
from core.nouns.ids import LogName
from core.nouns.limits import KEEPER_ASKED_MAX, READ_TIMEOUT
from runtime.errors import KeeperExists, KeeperSilent
from runtime.keeping.kept import Kept
from runtime.wake import Wake


async def ensure_no_other(bus: Bus, log: LogName) -> None:
    """Return once it is sure that nobody else keeps the log. Raises KeeperExists and KeeperSilent.

    Only the bus can say that nobody listens. Silence says nothing: the question was lost, or the other keeper stands still
    and would go on beside us.
    """
    for _ in range(KEEPER_ASKED_MAX):
        try:
            answer = await bus.ask(AskHead(log), READ_TIMEOUT)
        except NobodyListens:
            return
        except AskTimedOut:
            continue
        raise KeeperExists(log, answer.sequence if isinstance(answer, HeadAnswer) else 0)
    raise KeeperSilent(log)


def answer_asker(kept: Kept, term: int, bus: Bus, wake: Wake, parcel: Parcel, reply_to: str) -> None:
    """Answer the question whether this log is kept, which it is; or hear the word for which its keeper waits."""
    head = kept.log.head
    if isinstance(parcel.message, AcceptClock):
        is_waited_for = kept.guard is not None and kept.guard.hear_word()
        wake.ring()
        bus.say(ClockWord(head.log, is_waited_for), reply_to)
        return
    bus.say(HeadAnswer(head.log, head.log_id, term, head.sequence, head.hash), reply_to)

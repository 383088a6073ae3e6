"""Bytes that are no message arrive where messages are heard, and questions that make no sense where questions are."""

from collections import deque

from core.messages.base import Message
from scenarios.fault import Fault, Stage
from scenarios.play.forged_messages import QUESTIONS, SAID, forged, names_of
from scenarios.schema.parts import NotNegative, Positive, Share

KEPT = 300
"""Newest messages from which one is drawn."""


class PoisonMessages(Fault, frozen=True):
    """Spoiled: what was said just now, or what nobody ever said. As it is: a question that nobody means."""

    messages: Positive = 60
    questions_share: Share = 0.2
    """Of them; the others are spoiled."""
    overheard_share: Share = 0.5
    """Of those that are spoiled, what was said just now; where this world cannot see that, all are what nobody said."""
    listen_seconds: NotNegative = 5.0
    """For which it is listened before the first is said."""
    seconds: NotNegative = 20.0
    """Within which all are said."""

    async def strike(self, stage: Stage) -> None:
        """Listen, spoil, say."""
        world, dice = stage.world, stage.dice
        recent: deque[Message] = deque(maxlen=KEPT)
        is_over = False

        def overhear(_: str, message: Message) -> None:
            if not is_over:
                recent.append(message)

        world.overhear(SAID, overhear)
        try:
            await world.sleep(self.listen_seconds)
            names = names_of(world.units, stage.users.workloads())
            for _ in range(self.messages):
                if dice.random() < self.questions_share:
                    stage.users.bus.say(forged(dice.choice(QUESTIONS), dice, names))
                else:
                    is_overheard = bool(recent) and dice.random() < self.overheard_share
                    message = dice.choice(recent) if is_overheard else forged(dice.choice(SAID), dice, names)
                    await world.say_raw(message, dice.getrandbits(32))
                await world.sleep(dice.uniform(0.0, 2 * self.seconds / self.messages))
        finally:
            is_over = True

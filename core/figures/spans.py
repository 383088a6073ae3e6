"""What holds from one time to the next, added up by the hour."""

from core.nouns.instant import SECOND, Instant

HOUR = 3_600 * SECOND


class Spans:
    """Integrals of some values that change at times, over an interval, and of each of its hours.

    Values are whole; an integral is in value-nanoseconds. Times before `since` count nothing.
    """

    def __init__(self, since: Instant, values: int) -> None:
        self.since = since
        self.now: tuple[int, ...] = (0,) * values
        self.hours: list[list[int]] = []
        """By hour from `since`, of each value."""
        self._at = since

    def put(self, at: Instant, values: tuple[int, ...]) -> None:
        """From then on they are these. Times never go back."""
        self.until(at)
        self.now = values

    def until(self, at: Instant) -> None:
        """Count up to there."""
        while self._at < at:
            hour = (self._at - self.since) // HOUR
            end = min(at, self.since + (hour + 1) * HOUR)
            while len(self.hours) <= hour:
                self.hours.append([0] * len(self.now))
            row = self.hours[hour]
            for number, value in enumerate(self.now):
                row[number] += value * (end - self._at)
            self._at = Instant(end)

    def total(self, value: int) -> int:
        """Of all hours."""
        return sum(row[value] for row in self.hours)

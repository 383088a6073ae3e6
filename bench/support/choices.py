"""Values of options that name several things, with commas between."""


def numbers(text: str) -> tuple[int, ...]:
    """Return whole numbers. Raises ValueError."""
    return tuple(int(one) for one in text.split(","))


def words(text: str) -> tuple[str, ...]:
    """Return names."""
    return tuple(text.split(","))

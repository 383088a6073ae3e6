"""What can go wrong on a bus that its user must know of. A lost message is none of these: loss is in the promise."""


class BusError(Exception):
    """Something about the bus; the text says what to do."""


class MessageTooLarge(BusError):
    """A message over `MESSAGE_BYTES_MAX` was refused by its sender; nothing was sent."""

    def __init__(self, tag: str, size: int, size_max: int) -> None:
        super().__init__(f"{tag}: {size} bytes, and a message may have {size_max}")
        self.tag = tag
        self.size = size
        self.size_max = size_max


class NobodyListens(BusError):
    """A request that no one is there to hear."""


class AskTimedOut(BusError):
    """A request that was not answered in time. It may have been heard."""


class BadSubject(BusError):
    """A scope value that cannot be part of a subject: empty, or with a blank, a dot or a wildcard in it."""


class NotForTenants(BusError):
    """A message that a tenant's credentials cannot say; nothing was sent."""

    def __init__(self, tag: str, tenant: str) -> None:
        super().__init__(
            f"only the plane's operators may ask for this ({tag}), and these are the credentials of tenant {tenant}"
        )
        self.tag = tag
        self.tenant = tenant


class ServerNotFound(BusError):
    """No NATS server could be started, and none is configured."""


class ServerTooOld(BusError):
    """The NATS server is older than 2.12, which silently ignores options we rely on."""

"""Exceptions of functions on real executors."""


class RemoteFailure(Exception):
    """A call failed with an exception that cannot be taken across: its words are here, and its traceback is a note."""


class CodeNotLoaded(Exception):
    """An executor cannot get ready; the text is one sentence on why."""

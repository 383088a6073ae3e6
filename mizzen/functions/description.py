"""The description of a function, which goes with its calls: its name, needs and code, and the digest that tells it from every other.

Executors import a function that lies in a file under the current directory: as `module:name`, from the directory in which the module
lies, and nodes must see that directory under the same path. Every other function goes to them pickled, with its `init`: one of `__main__`
or a notebook, a lambda, a closure, or one of a file elsewhere. What such a function uses of its own module goes along, and other
modules must be installed on nodes.
"""

import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any  # Any: arguments and values are of every type.

import msgspec
from msgspec import Struct

from core.nouns.function import FunctionCode, FunctionSpec
from core.nouns.function_limits import CODE_BYTES_MAX
from core.nouns.ids import TenantName
from mizzen.functions.needs import Options
from mizzen.sdk.mizzen.functions import CallRefused, CallTooLarge

DIGEST_BYTES = 16
MAIN = "__main__"

Code = Callable[..., Any]
_pickling = Lock()
"""Held while a module is pickled by value: cloudpickle keeps that for the whole process."""


class Description(Struct, frozen=True):
    """A function, for calls of any tenant."""

    name: str
    digest: str
    options: Options
    code: FunctionCode
    pickled: bytes
    """Empty: executors import the function."""

    def spec(self, tenant: TenantName) -> FunctionSpec:
        """Return the function of one tenant."""
        one = self.options
        return FunctionSpec(tenant, self.name, self.digest, one.need, self.code, one.timeout)


def describe(function: Code, init: Code | None, options: Options) -> Description:
    """Return the description of a function as it is now. Raises CallRefused if no executor could have its code."""
    name = options.name or name_of(function)
    place = place_of(function, init, options.directory)
    if place is not None:
        target, directory, file = place
        code, pickled, content = FunctionCode(target, directory, init is not None), b"", file.read_bytes()
    else:
        code = FunctionCode(is_init=init is not None)
        pickled = content = pickled_code(function, init, name)
    known = msgspec.msgpack.encode((name, options.need, options.timeout, code))
    digest = hashlib.blake2b(known + content, digest_size=DIGEST_BYTES).hexdigest()
    return Description(name, digest, options, code, pickled)


def name_of(function: Code) -> str:
    """Return the name of a function in the plane."""
    module, name = _called(function)
    return name if module in ("", MAIN) else f"{module}.{name}"


def place_of(function: Code, init: Code | None, directory: str | None) -> tuple[str, str, Path] | None:
    """Return target, directory and file of a function that executors import; None: they get it pickled.

    directory  chosen by the user; empty: pickled in any case. Raises CallRefused if the function cannot be imported from it.
    """
    if directory == "":
        return None
    module, name = _called(function)
    found: Any = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    for part in name.split("."):
        found = getattr(found, part, None)
    is_whole = getattr(found, "__mizzen_function__", found) is function
    has_init = getattr(found, "__mizzen_init__", None) is init
    if module != MAIN and file is not None and is_whole and has_init:
        path = Path(file).absolute()
        root = path.parents[module.count(".") + (path.stem == "__init__")]
        if directory is not None:
            return f"{module}:{name}", str(Path(directory).absolute()), path
        if root.resolve().is_relative_to(Path.cwd().resolve()) and not _is_installed(file):
            return f"{module}:{name}", str(root), path
    if directory is not None:
        raise CallRefused(
            f"no module has {name_of(function)} under that name, so it cannot be imported from {directory}"
        )
    return None


def pickled_code(function: Code, init: Code | None, name: str) -> bytes:
    """Return the code of a function as bytes. Raises CallRefused."""
    from runtime.functions.packing import pack_code

    try:
        with _by_value(sys.modules.get(_called(function)[0])):
            data = pack_code(function, init)
    except Exception as error:
        raise CallRefused(f"{name} cannot be pickled: {error}") from error
    if len(data) > CODE_BYTES_MAX:
        text = f"the code of {name}, with all that it refers to, has {len(data)} bytes, and {CODE_BYTES_MAX} are the most"
        raise CallTooLarge(f"{text}; let its init read large things from a file")
    return data


def _called(function: Code) -> tuple[str, str]:
    """Return the names of a function's module and of the function in it."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return getattr(function, "__module__", None) or "", name


def _is_installed(file: str) -> bool:
    """Return whether a file is of Python or of an installed package, which nodes have too."""
    paths = sysconfig.get_paths()
    return any(Path(file).is_relative_to(paths[name]) for name in ("stdlib", "purelib", "platlib"))


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Let a module be pickled with all that is used of it: executors need not have the module."""
    import cloudpickle

    with _pickling:
        known = {MAIN, *cloudpickle.list_registry_pickle_by_value()}
        file = getattr(module, "__file__", None)
        if module is None or file is None or module.__name__ in known or _is_installed(file):
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)

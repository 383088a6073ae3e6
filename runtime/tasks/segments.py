"""A task's output in files of bounded size: part of its runner, and so of few imports."""

import os


class Output:
    """The task's output in files that are named by the offset of their first byte, of which the oldest are dropped."""

    def __init__(self, directory: str, bytes_max: int, count_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._offset = 0
        self._room = 0
        self._descriptor = -1
        self._paths: list[str] = []

    def write(self, data: bytes) -> None:
        """Keep it; what a full disk does not take is dropped, for a task must never wait for its reader."""
        while data:
            try:
                if self._room == 0:
                    self._begin()
                count = os.write(self._descriptor, data[: self._room])
            except OSError:
                self._give_up()
                count = len(data)
            else:
                self._room -= count
            self._offset += count
            data = data[count:]

    def end(self, code: int) -> None:
        """Nothing more will come."""
        try:
            with open(f"{self._directory}/ended", "w") as file:  # noqa: PTH123
                file.write(f"{code}\n")
        except OSError:
            return  # Whoever reads it waits until the worker says so.

    def _give_up(self) -> None:
        """This file takes no more; one that took nothing goes, so that it drives no other out."""
        if self._room == self._bytes_max:
            os.unlink(self._paths.pop())  # noqa: PTH108
        self._room = 0

    def _begin(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        path = f"{self._directory}/{self._offset:020d}"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._room = self._bytes_max
        self._paths.append(path)
        if len(self._paths) > self._count_max:
            os.unlink(self._paths.pop(0))  # noqa: PTH108

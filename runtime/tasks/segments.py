"""A task's output in files of bounded size: part of its runner, and so of few imports."""

import os


def paths_in(directory: str) -> list[str]:
    """The files of a task's output, oldest first."""
    return [f"{directory}/{name}" for name in sorted(os.listdir(directory)) if name.isdigit()]  # noqa: PTH208


class Output:
    """The task's output in files that are named by the offset of their first byte, of which the oldest are dropped.

    It goes on behind what an earlier run of the task wrote here, so that all runs together take no more room than one.
    """

    def __init__(self, directory: str, bytes_max: int, count_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._offset = 0
        self._room = 0
        self._descriptor = -1
        self._paths = paths_in(directory)
        if self._paths:
            self._go_on(self._paths[-1])

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

    def _go_on(self, path: str) -> None:
        size = os.stat(path).st_size  # noqa: PTH116
        self._offset = int(path.rpartition("/")[2]) + size
        if size < self._bytes_max:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            self._room = self._bytes_max - size

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
        while len(self._paths) > self._count_max:
            os.unlink(self._paths.pop(0))  # noqa: PTH108

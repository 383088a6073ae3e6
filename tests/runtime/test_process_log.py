"""What a supervised process writes goes into files that are rotated while it lives."""

import subprocess
import sys
from pathlib import Path

BYTES_MAX, KEPT = 2_000, 2
PROGRAM = """
import os, subprocess, sys
from pathlib import Path
import structlog
from runtime.logs import set_up_logs
from runtime.supervision.process_log import ProcessLog

log = ProcessLog(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
sys.stdout = sys.stderr = log
set_up_logs({}, default="info")
logger = structlog.get_logger()
for number in range(100):
    logger.warning("count_grew", number=number)
    print("printed", number)
    os.write(2, f"written {number}\\n".encode())
subprocess.run(["/bin/echo", "by a child"], check=True)
"""


def written(path: Path) -> list[Path]:
    """A process that logs, prints and writes by itself has ended: its files, the newest first."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(BYTES_MAX), str(KEPT)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("", "") == (done.stdout, done.stderr)
    return [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, KEPT + 1))]


def test_files_are_rotated_while_the_process_lives(tmp_path: Path) -> None:
    """None becomes much longer than it may, the oldest go, and what is newest is in the newest."""
    files = written(tmp_path / "unit.log")
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert all(file.stat().st_size <= BYTES_MAX + 200 for file in files)
    newest, *older = [file.read_text() for file in files]
    assert newest.endswith("by a child\n")
    assert "written 99\n" in newest
    for text in (newest, *older):
        assert '"event": "count_grew"' in text
        assert "printed" in text
        assert "written" in text


def test_lines_are_whole_and_in_order(tmp_path: Path) -> None:
    """Rotating cuts no line and loses none but the oldest files."""
    files = written(tmp_path / "unit.log")
    lines = [line for file in reversed(files) for line in file.read_text().splitlines()]
    numbers = [int(line.split()[1]) for line in lines if line.startswith("printed")]
    assert list(range(numbers[0], 100)) == numbers


FAILING = """
import os, sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from runtime.supervision.process_log import ProcessLog

log = ProcessLog(Path(sys.argv[1]), 100, 2)
opens, renames = RotatingFileHandler._open, os.rename

def fails(*_):
    raise OSError(24, "Too many open files")

log.write("x" * 150 + "\\n")
RotatingFileHandler._open = fails
log.write("at the rotation\\n")
log.write("while nothing can be opened\\n")
RotatingFileHandler._open = opens
log.write("open again\\n")
log.write("y" * 150 + "\\n")
os.rename = fails
log.write("while nothing can be renamed\\n")
os.rename = renames
log.write("renamed again\\n")
os.write(2, b"written\\n")
"""


def test_rotation_that_fails_is_tried_again(tmp_path: Path) -> None:
    """Lines are lost meanwhile, and nothing raises; then lines go into a file again, and so do the descriptors."""
    path = tmp_path / "unit.log"
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(path)], capture_output=True, text=True, check=False
    )
    files = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr), files
    assert "renamed again\nwritten\n" == files["unit.log"]
    assert "open again\n" + "y" * 150 + "\n" == files["unit.log.1"]
    assert "x" * 150 + "\n" == files["unit.log.2"]

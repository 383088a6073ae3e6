"""Asks a process of a plane on this machine, or a NATS server, whether it is well: the health check of a container.

    python -I -m runtime.health.check                    # the process whose socket `MIZZEN_HEALTH` names
    python -I -m runtime.health.check --nats HOST:PORT   # a server: whether it greets a client

Exits with 0 when the answer is yes; otherwise prints the problem and exits with 1. The program imports little, because it runs every few
seconds in each container: it takes 35 ms of CPU.
"""

import os
import socket
import sys

HEALTH_VARIABLE = "MIZZEN_HEALTH"
"""The socket on which a process tells of its health (runtime/health/serving.py)."""
WELL = "well\n"
"""The answer of a process in which every unit is well; any other answer is the problem."""
ANSWER_SECONDS_MAX = 8.0
"""Until an answer is there. A process that needs longer for it stands still."""
ANSWER_BYTES_MAX = 64 * 1024


def problem_of_process(path: str) -> str:
    """Return what is wrong with the process behind a socket; empty when it is well."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_SECONDS_MAX)
        try:
            asking.connect(path)
            said = b""
            while len(said) < ANSWER_BYTES_MAX and (more := asking.recv(ANSWER_BYTES_MAX)):
                said += more
        except OSError as error:
            return f"the process does not answer on {path}: {error}"
    text = said.decode(errors="replace")
    return "" if text == WELL else text.strip() or "the process ended before it answered"


def problem_of_server(address: str) -> str:
    """Return what is wrong with a NATS server; empty when it greets a client, which it does before it asks for credentials."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX) as asking:
            greeting = asking.recv(ANSWER_BYTES_MAX)
    except (OSError, ValueError) as error:
        return f"no NATS server answers at {address}: {error}"
    return "" if greeting.startswith(b"INFO {") else f"{address} is no NATS server"


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    if arguments[:1] == ["--nats"] and len(arguments) == 2:
        problem = problem_of_server(arguments[1])
    elif not arguments and os.environ.get(HEALTH_VARIABLE):
        problem = problem_of_process(os.environ[HEALTH_VARIABLE])
    else:
        problem = f"set {HEALTH_VARIABLE} to the socket of a process, or give --nats HOST:PORT"
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

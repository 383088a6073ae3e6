"""The thread that owns a log's one writing connection: it opens the log, and groups whatever is waiting into one commit.

Why a thread of its own: a commit waits for the disk, and the default executor's threads are anybody's. Why it must be
ours from the first statement to the last: a cancelled caller leaves nothing half done on a connection it cannot touch.
"""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import structlog

from core.fact import Head
from core.nouns.ids import LogName
from store import sqlite_file as file
from store.bell import Bell, call_soon
from store.chain import GENESIS, chain
from store.errors import AppendFailed, LogBroken, LogError, LogFull, NotNext
from store.files import FileLock, make_directory
from store.images import ImageFiles
from store.port import Row
from store.shedding import Shedding

logger = structlog.get_logger()

GROUP_APPENDS_MAX = 4096
"""Appends in one commit, or those of one turn of the loop: bounds how long whoever comes next must wait."""

LOOK_SECONDS = 10.0
"""Between looks for archive files whose rows can be deleted, and for pages to give back."""
PAUSE_SECONDS = 0.02
"""Between steps of that: a step of 2 ms and its commit hold up one append in ten, as long as there are steps to take."""
RETRY_SECONDS = 60.0
"""After a step that failed: a disk that is full or ill is left alone meanwhile."""

Append = tuple[tuple[Row, ...], int, asyncio.Future[Head]]
"""A batch that waits to be made durable: its rows, their term, and whoever waits."""


class Close:
    """The end: all that was handed in before is settled first."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done


class Shed:
    """Delete at once what archive files have, and give back every free page."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done


Place = tuple[int, int]
"""Where an append ends within its group: after so many rows, and in which term."""

Outcome = tuple[asyncio.Future[Head], Head | Exception]


class Writer:
    """Opens a log and writes to it, in a thread that is a daemon: a process that dies does not wait for it."""

    def __init__(self, name: LogName, directory: Path, log_id_if_new: str) -> None:
        self._name = name
        self._directory = directory
        self._log_id_if_new = log_id_if_new
        self._loop = asyncio.get_running_loop()
        self._handed_in: list[Append] = []
        """In this turn of the loop."""
        self._waiting: SimpleQueue[list[Append] | Shed | Close] = SimpleQueue()
        self._outcomes: deque[list[Outcome]] = deque()
        """What the thread has to tell, and the loop has not told yet."""
        self._bell = Bell(self._loop, self._tell)
        self._failure: str = ""
        self._group: list[Append] = []
        """Taken by the thread, and not settled yet."""
        self._item: Shed | Close | None = None
        """The same, behind that group."""
        self._look_at = 0.0
        self._not_shed = ""
        """Why archived rows were not deleted, at the last try; empty: they were."""
        self.not_archived = 0
        """Tries that failed. Only the thread sets the count."""
        self.head = Head(name, log_id_if_new, 0, 0, GENESIS)
        """Of what is durable. Only the thread sets it."""

    async def open(self) -> None:
        """Start the thread; returns when the log is checked. Raises LogInUse, LogBroken and LogFromNewerBuild."""
        opened: asyncio.Future[None] = self._loop.create_future()
        Thread(target=self._run, args=(opened,), name=f"log {self._name}", daemon=True).start()
        try:
            await opened
        except asyncio.CancelledError:
            # The thread may be through already or not; either way the first thing that it finds is this.
            self.hand_in_close()
            raise

    def hand_in(self, rows: Sequence[Row], term: int) -> asyncio.Future[Head]:
        """Queue a batch. Its rows are copied now: the caller may do with its list what it likes, also when cancelled.

        What is handed in during one turn of the loop goes to the thread together, at its end. Woken by the first of
        many, the thread would fight the loop for the interpreter while that hands in the rest: tried with 16 appenders on
        a disk that takes no time, a commit then took 296 µs instead of 142, and with one 79 instead of 32.
        """
        done: asyncio.Future[Head] = self._loop.create_future()
        if not self._handed_in:
            self._loop.call_soon(self._pass_on)
        self._handed_in.append((tuple(rows), term, done))
        return done

    def hand_in_close(self) -> asyncio.Future[None]:
        """Queue the end. Nothing may be handed in after it."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._pass_on()
        self._waiting.put(Close(done))
        return done

    def hand_in_shed(self) -> asyncio.Future[None]:
        """Queue a whole shedding. Appends handed in after it wait until it is over. Raises LogError."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._pass_on()
        self._waiting.put(Shed(done))
        return done

    def _pass_on(self) -> None:
        if self._handed_in:
            self._waiting.put(self._handed_in)
            self._handed_in = []

    # Everything below runs in the thread.

    def _run(self, opened: asyncio.Future[None]) -> None:
        try:
            lock = self._open()
        except Exception as error:  # noqa: BLE001  # whatever it is, whoever asked must hear it
            call_soon(self._loop, partial(self._end, opened, error))
            return
        call_soon(self._loop, partial(_settle, opened))
        close, problem = self._write_until_closed(), None
        try:
            # A checkpoint that fails costs nothing but a longer write-ahead log for the next opening to read.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
        except Exception as error:  # noqa: BLE001  # any error is told to the caller of `close`
            problem = error
        lock.release()
        call_soon(self._loop, partial(self._end, close.done, problem))

    def _open(self) -> FileLock:
        make_directory(self._directory)
        lock = FileLock(self._name, file.path_of(self._directory, self._name, ".lock"))
        try:
            path = file.path_of(self._directory, self._name)
            self._connection = file.connect_to_write(self._name, path, self._log_id_if_new)
            try:
                self.head = self._checked_head()
                self._shedding = Shedding(self._name, self._directory, self._connection)
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            lock.release()
            raise
        return lock

    def _checked_head(self) -> Head:
        """The head, once the rows since the newest usable snapshot are known to follow one another.

        So the start takes no longer the longer the history is; `verify` reads all of it.
        """
        try:
            head = Head(self._name, *file.head_row(self._connection))
            sequence, before = self._sound_point(head)
        except sqlite3.DatabaseError as error:
            raise file.explained(self._name, error, self._connection, 1, GENESIS) from error
        for rows, last in file.checked_pages(self._connection, self._name, sequence + 1, before):
            sequence, before = sequence + len(rows), last
        if (sequence, before) != (head.sequence, head.hash):
            raise LogBroken(
                self._name, sequence + 1, f"the row cannot be found, though {head.sequence} is there"
            )
        return head

    def _sound_point(self, head: Head) -> tuple[int, bytes]:
        """The newest snapshot that is whole and stands where the log has this hash; where the archive ends without one."""
        snapshot = file.sound_snapshot(self._connection, ImageFiles(self._directory, self._name), head.log_id)
        if snapshot is not None:
            return snapshot.head.sequence, snapshot.head.hash
        return file.border(self._connection)

    def _write_until_closed(self) -> Close:
        self._look_at = time.monotonic() + LOOK_SECONDS
        while not isinstance(self._item, Close):
            try:
                self._take_turn()
            except Exception as mistake:  # noqa: BLE001  # a mistake of ours, or appends would wait for ever
                self._failure = self._failure or f"{type(mistake).__name__}: {mistake}"
                self._settle_group([(done, self._failed()) for _, _, done in self._group])
                if isinstance(self._item, Shed):
                    call_soon(self._loop, partial(_settle, self._item.done, self._failed()))
        return self._item

    def _take_turn(self) -> None:
        waiting = self._waiting
        # 1. Wait for something to do, then take whatever else is waiting: that is the group.
        item = self._next()
        while isinstance(item, list):
            self._group += item
            if len(self._group) >= GROUP_APPENDS_MAX or waiting.empty():
                break
            item = waiting.get()
        self._item = None if isinstance(item, list) else item
        # 2. One commit for all of it. The end is taken last, so that all before it is settled.
        if self._group:
            self._settle_group(self._committed(self._group))
        # 3. What is archived goes, a little at a time, while nobody waits.
        if isinstance(item, Shed):
            call_soon(self._loop, partial(_settle, item.done, self._shed(self._finish_shedding)))
        elif time.monotonic() >= self._look_at and waiting.empty() and not isinstance(item, Close):
            self._look_at = time.monotonic() + RETRY_SECONDS
            self._look_at = time.monotonic() + self._step()

    def _next(self) -> list[Append] | Shed | Close | None:
        """Return the next item; None when it is time to look for archive files."""
        try:
            return self._waiting.get(timeout=max(0.0, self._look_at - time.monotonic()))
        except Empty:
            return None

    def _settle_group(self, outcomes: list[Outcome]) -> None:
        self._group = []
        self._outcomes.append(outcomes)
        self._bell.ring()

    def _step(self) -> float:
        """Take one step of shedding; returns the seconds until the next."""
        is_more = False

        def step() -> bool:
            nonlocal is_more
            is_more = self._shedding.step()
            return not is_more

        if self._shed(step) is not None:
            return RETRY_SECONDS
        return PAUSE_SECONDS if is_more else LOOK_SECONDS

    def _finish_shedding(self) -> bool:
        self._shedding.finish()
        return True

    def _shed(self, work: Callable[[], bool]) -> LogError | None:
        """Do some of the shedding; returns the error, if there was one. `work` says whether all steps are taken.

        After an error the rows stay until a later try, or the next opening. No append needs these rows, so the log goes on,
        unless a transaction stays open, or the disk may have lost pages of the write-ahead log.
        """
        if self._failure:
            return self._failed()
        try:
            if work():
                self._say_shed("")
            return None
        except Exception as error:  # noqa: BLE001  # old rows never stop the keeper
            problem: LogError
            if self._shedding.recover(error):
                problem = self._not_shed_because(error)
            else:
                self._failure = str(error)
                problem = self._failed()
        self.not_archived += 1
        self._say_shed(str(problem))
        return problem

    def _not_shed_because(self, error: Exception) -> LogError:
        if isinstance(error, LogError):
            return error
        if isinstance(error, sqlite3.Error):
            if _is_full(error):
                return self._full()
            if file.is_damage(error):
                # Of rows that are archived, or of free pages: no append needs them, and `verify` names what it can.
                return LogBroken(self._name, 1, f"rows that are archived cannot be deleted ({error})")
        text = f"rows that are archived cannot be deleted for now ({type(error).__name__}: {error})"
        return LogError(self._name, text)

    def _say_shed(self, problem: str) -> None:
        """Have a line logged, if the outcome is another than before."""
        if problem != self._not_shed:
            self._not_shed = problem
            call_soon(self._loop, partial(self._log_shed, problem))

    def _committed(self, group: list[Append]) -> list[Outcome]:
        """What became of each append of a group, once it is durable."""
        if self._failure:
            return [(done, self._failed()) for _, _, done in group]
        # 1. Number the rows, in the order of the calls. What does not follow is refused; the others go on.
        rows, places, end = self._numbered(group)
        try:
            # 2. Chain and write. They are all there or none is.
            hashes = chain(self.head.hash, rows)
            if rows:
                self._insert(rows, hashes, end[1])
        except sqlite3.Error as error:
            return self._unwritten(group, places, error)
        except Exception as mistake:  # noqa: BLE001  # a row that has no encoding: one append's, not its neighbours'
            self._roll_back()
            if len(group) == 1:
                return [(group[0][2], mistake)]
            return [outcome for append in group for outcome in self._committed([append])]
        # 3. Each hears of the head after its own rows.
        outcomes: list[Outcome] = [
            (done, place if isinstance(place, NotNext) else self._head_at(place, hashes))
            for (_, _, done), place in zip(group, places, strict=True)
        ]
        self.head = self._head_at(end, hashes)
        return outcomes

    def _numbered(self, group: list[Append]) -> tuple[list[Row], list[Place | NotNext], Place]:
        """The rows of a group together, where each append ends among them, and where all of them do."""
        rows: list[Row] = []
        places: list[Place | NotNext] = []
        term_now = self.head.term
        first = self.head.sequence + 1
        for batch, term, _ in group:
            if batch:
                problem = _gap(batch, first + len(rows))
                if term < term_now:
                    problem = f"term {term} comes after term {term_now}"
                if problem:
                    places.append(NotNext(self._name, problem))
                    continue
                rows += batch
                term_now = term
            places.append((len(rows), term_now))
        return rows, places, (len(rows), term_now)

    def _head_at(self, place: Place, hashes: list[bytes]) -> Head:
        """The head after so many of the rows that follow the present one."""
        after, term = place
        if not after:
            return self.head
        return Head(self._name, self.head.log_id, term, self.head.sequence + after, hashes[after - 1])

    def _insert(self, rows: list[Row], hashes: list[bytes], term: int) -> None:
        execute = self._connection.execute
        if len(rows) <= file.STATEMENT_ROWS_MAX and term == self.head.term:
            # A statement outside a transaction is one: one step, in which the interpreter is free for others.
            execute(file.insert(len(rows)), _values(rows, hashes))
            return
        execute("BEGIN IMMEDIATE")
        for start in range(0, len(rows), file.STATEMENT_ROWS_MAX):
            part = slice(start, start + file.STATEMENT_ROWS_MAX)
            execute(file.insert(len(rows[part])), _values(rows[part], hashes[part]))
        execute("UPDATE meta SET term = ?", (term,))
        execute("COMMIT")

    def _unwritten(
        self, group: list[Append], places: list[Place | NotNext], error: sqlite3.Error
    ) -> list[Outcome]:
        """What to tell a group that was not written: a refusal stands, and no rows are never too many."""
        if not self._roll_back() or not _is_full(error):
            self._failure = str(error)
            return [(done, self._failed()) for _, _, done in group]
        outcomes: list[Outcome] = []
        for (rows, _, done), place in zip(group, places, strict=True):
            if isinstance(place, NotNext):
                outcomes.append((done, place))
            else:
                outcomes.append((done, self._full() if rows else self.head))
        return outcomes

    def _roll_back(self) -> bool:
        """Leave no transaction open; whether that worked. SQLite may have rolled back itself."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True

    def _full(self) -> LogFull:
        return LogFull(self._name, f"no room for more in {self._directory}; free some, then go on")

    def _failed(self) -> AppendFailed:
        text = f"a batch could not be made durable ({self._failure}); close the log and open it again"
        return AppendFailed(self._name, text)

    # These run in the loop. A future that is done was cancelled: its caller is gone, the others are told.

    def _tell(self) -> None:
        outcomes = self._outcomes
        while outcomes:
            for done, outcome in outcomes.popleft():
                if done.done():
                    continue
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)

    def _log_shed(self, problem: str) -> None:
        if problem:
            logger.error("archived_facts_not_deleted", log=self._name, error=problem)
        else:
            logger.info("archived_facts_deleted_again", log=self._name)

    def _end(self, done: asyncio.Future[None], error: Exception | None = None) -> None:
        # The thread has gone, but its last ring may still be waiting to be heard.
        self._tell()
        self._bell.close()
        _settle(done, error)


def _settle(done: asyncio.Future[None], error: Exception | None = None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _is_full(error: sqlite3.Error) -> bool:
    """Whether there was no room on the disk."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _gap(rows: Sequence[Row], first: int) -> str:
    """What is wrong with the sequences of rows that should begin with `first`; empty when nothing is."""
    for expected, row in enumerate(rows, first):
        if row[0] != expected:
            return f"sequence {row[0]} stands where {expected} should"
    return ""


def _values(rows: Sequence[Row], hashes: Sequence[bytes]) -> list[object]:
    """For one INSERT, one after the other."""
    return [value for row, hash_ in zip(rows, hashes, strict=True) for value in (*row, hash_)]

"""The hash chain: fixed for ever, because logs outlive the builds that write them."""

import pytest

from core.nouns.ids import LogName
from store.chain import GENESIS, HASH_BYTES, chain, checked
from store.errors import LogBroken
from store.port import Row

LOG = LogName("region.eu")
FIRST = Row(1, 1_700_000_000_000_000_000, "cause", "actor", "w-1", b"event")
SECOND = Row(2, 1_700_000_000_000_000_001, "cäuse", "", "", b"")


def test_hashes_are_these() -> None:
    """A row written today must follow in every later build: whoever changes this breaks every log there is."""
    hashes = chain(GENESIS, [FIRST, SECOND])
    assert ["4db0d26ac24780cc5ac6ab3f2eee36f6", "565ee28859931d6c0df001ae4fd2251a"] == [
        hash_.hex() for hash_ in hashes
    ]


def test_hash_covers_all_that_a_row_says() -> None:
    """No field may change, move into its neighbour or change its type, nor may the row follow another one."""
    others = [
        FIRST._replace(sequence=2),
        FIRST._replace(at=FIRST.at + 1),
        FIRST._replace(cause="cause2"),
        FIRST._replace(actor="actor2"),
        FIRST._replace(about="w-2"),
        FIRST._replace(event=b"Event"),
        FIRST._replace(cause="caus", actor="eactor"),
        FIRST._replace(actor="actorw", about="-1"),
        FIRST._replace(cause="", actor="causeactor"),
    ]
    hashes = {chain(GENESIS, [row])[0] for row in [FIRST, *others]}
    hashes.add(chain(b"x" * HASH_BYTES, [FIRST])[0])
    assert len(others) + 2 == len(hashes)
    assert {HASH_BYTES} == {len(hash_) for hash_ in hashes}


def test_chained_rows_are_checked() -> None:
    """Rows that `chain` writes `checked` believes, and it names the first row that is wrong."""
    rows = [FIRST, SECOND, FIRST._replace(sequence=3)]
    hashes = chain(GENESIS, rows)
    stored = [(*row, hash_) for row, hash_ in zip(rows, hashes, strict=True)]
    assert rows == checked(LOG, stored, 1, GENESIS)
    assert rows[1:] == checked(LOG, stored[1:], 2, hashes[0])
    for broken, first, before, sequence in [
        ([stored[0], stored[2]], 1, GENESIS, 2),
        (stored[1:], 1, GENESIS, 1),
        (stored[1:], 2, GENESIS, 2),
        ([*stored[:2], (*rows[2], hashes[1])], 1, GENESIS, 3),
    ]:
        with pytest.raises(LogBroken) as found:
            checked(LOG, broken, first, before)
        assert sequence == found.value.sequence

"""The doers of a region's data service: datasets are copied into the region, verified, hashed and deleted.

    doers.py           which of the two a region of a plan has
    emulated.py        `EmulatedData`: bytes over rate, on the clock that is handed in
    emulated_world.py  `DataWorld`: the disks and links of all emulated regions, and the faults that act on them
    files.py           `DataFiles`: real files, each copy in a child process
    file_copy.py       one order, from the first look at the disk to the rename
    directory.py       a region's directory: `.incoming/<copy>`, renames and deletions; no path outside is touched
    hashing.py         datasets hashed one at a time
    command.py         the operator's command that copies, or our own
    children.py        child processes: heard, watched for silence, and ended with all their descendants
    copier.py, hasher.py, deleter.py
                       the programs that run as children; child.py, their common part; tree.py, the walk through a dataset
    errors.py          why such a program gives up

The children import none of the doers, so that they start quickly.
"""

"""Measures: one file a benchmark, one table out. `python -m bench NAME`, or `all`; `--json` for machines to read.

A benchmark is a module here with `async def run(directory: Path, *, is_quick: bool) -> Findings` (bench/support/report.py), or a
plain function if it brings its own loop. It is found by its file's name, and bench/support/durations.py has how long it takes, with the
options that make it take five minutes at most (`--short`). All files go into the directory; when a benchmark is to be quick its figures
need not be right, but every one is there. A figure ends in its unit; a bar is a bound that we set ourselves, a yardstick a published or
measured figure of another system, named beside the figure of ours that is the same work.
"""

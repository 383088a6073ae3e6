"""Measures: one file a benchmark, one table out. `python -m bench NAME`, or `all`; `--json` for machines to read.

A benchmark is a module here with `async def run(directory: Path, *, is_quick: bool) -> Findings` (bench/support/report.py), or a
plain function if it brings its own loop. It is found by its file's name. What it writes goes into the directory; when it is to be quick its figures need not be right, but
every one is there. A figure ends in its unit; a bar is a bound that we set ourselves, a yardstick somebody's published or
measured figure to see ours beside.
"""

"""What goes on beside the reader of a log, so that the log does not grow for ever: `archiver.py` archives old facts."""

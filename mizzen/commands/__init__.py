"""One file a command. Each is imported when it is asked for and not before, so that the others start at once."""

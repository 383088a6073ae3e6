"""What can go wrong, one file each, found by the file's name."""

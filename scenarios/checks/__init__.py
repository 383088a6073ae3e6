"""What must be so whatever goes wrong, one file each, found by the file's name."""

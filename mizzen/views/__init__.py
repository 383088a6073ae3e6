"""What commands show: read from a running plane or from log files, and put into words, lines and tables."""

"""What is to be expected: how long work will run, by what ran before, and when what waits will start, with an error band."""

"""What `mizzen policy` reads, plays and shows: jobs of a trace or a log, a fleet, one policy after the other over them, and shared pools."""

"""What `mizzen policy` reads and plays: jobs of a trace or a log, a fleet, and one policy after the other over them."""

"""Where data lives, for benchmarks: tables, jobs and regions drawn as they were published."""

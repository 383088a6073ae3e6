"""Job files and scripts: what people write, and the workload that it becomes."""

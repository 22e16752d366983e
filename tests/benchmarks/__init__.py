"""What the lessons and docs/results.md show, measured. `python -m tests.benchmarks` writes one file per result to `results/`."""

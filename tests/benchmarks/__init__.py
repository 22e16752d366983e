"""What the README and the lessons claim, measured. `python -m tests.benchmarks` writes one file a result to `results/`."""

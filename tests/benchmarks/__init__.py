"""What the README claims, measured. `python -m tests.benchmarks` writes `results.json` beside this file."""

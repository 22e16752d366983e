"""Slow proofs, outside `make test`. `python -m tests.audit` runs them and writes what came out to `results/`."""

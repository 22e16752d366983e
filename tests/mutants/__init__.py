"""Attack the checks: small changes of every solution, nearly all of which a check must refuse.

- `solutions.py` finds the solved cell of an exercise and the names that it uses.
- `syntax.py` changes its text: an axis, a sign, a bound, a comparison, a dropped factor, a missing line.
- `wrappers.py` changes what goes in and comes out: shifted masks, wrong dtypes, cut gradients, memory of earlier calls.
- `judging.py` judges them all, each in a process of its own, and survives those that hang or end it.
- `equivalent.py` lists those that are right answers after all, each with its reason.
- `styles.py` makes right answers of it, which no check may refuse; tests/bank has those in other words.

    python -m tests.mutants 1.5      # which mutants of exercise 1.5 does its check accept?
"""

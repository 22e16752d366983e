"""Solutions of lesson 00, written by `make notebooks` from notebooks/src/00_start_here.py: edit that."""




# Exercise 0.1 · normalize to a sum of 1 · easy · 2 min
def normalize(numbers):
    """(n,) positive numbers to (n,) fractions of their sum, which add up to 1."""
    ### BEGIN SOLUTION
    return numbers / numbers.sum()
    ### END SOLUTION

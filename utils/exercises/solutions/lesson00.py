"""Solutions of lesson 00, written by `make notebooks` from notebooks/src/00_start_here.py: edit that."""




# Exercise 0.1 · shares of a whole · easy · 2 min
def shares(numbers):
    """(n,) positive numbers to (n,) shares that sum to 1."""
    ### BEGIN SOLUTION
    return numbers / numbers.sum()
    ### END SOLUTION

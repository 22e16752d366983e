"""Solutions of lesson 00, written by `make notebooks` from notebooks/src/00_start_here.py: edit that."""



# The id of each exercise's cell
CELLS = {
    '0.1': '183c93d0f6a4',
    '0.2': 'd92b7b5c92b8',
}
# Kind and section of the later cells that call the answer
CALLERS = {
    '0.1': [('code', '')],
    '0.2': [('code', '')],
}


# Exercise 0.1 · normalize to a sum of 1 · easy · 2 min
def normalize(numbers):
    """(n,) positive numbers to (n,) fractions of their sum, which add up to 1."""
    ### BEGIN SOLUTION
    return numbers / numbers.sum()
    ### END SOLUTION


# Exercise 0.2 · mask the keys of a batch · medium · 8 min
def mask_keys(scores, attention_mask):
    """scores (b, m, n), attention_mask (b, n) bool to scores (b, m, n), -inf at masked keys."""
    ### BEGIN SOLUTION
    mask = attention_mask.unsqueeze(-2)  # (b, 1, n): the same for every query
    return scores.masked_fill(~mask, float("-inf"))
    ### END SOLUTION

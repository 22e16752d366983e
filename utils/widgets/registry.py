"""Every widget, by its module: browser tests, slides and site find them here.

A module has `example()`, a small widget to operate, and, where its script computes answers without Python, `samples()`: inputs at
which both must agree.
"""

from utils.widgets import feedback, guess, quiz

MODULES = (feedback, guess, quiz)

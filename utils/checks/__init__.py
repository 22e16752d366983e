"""Judging an answer: `compare` with the reference, `isolation` with limits, `stubs`, `progress`, `text` of messages.

Knows nothing of the exercises of this course; `utils.exercises` hands it what is to be judged.
"""

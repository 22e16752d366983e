"""Checking an answer: `compare` with the reference, `isolation` with limits, `stubs`, `progress`, `text` of messages.

Independent of the exercises of this course: `utils.exercises` passes in what is to be checked.
"""

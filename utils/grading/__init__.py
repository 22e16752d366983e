"""Grade a folder of submitted notebooks: `python -m utils.grading FOLDER`, or `make grade FOLDER=...`.

One submission, one bubblewrap sandbox (`sandbox`, `server`), with which nothing of another submission is shared. In it
every exercise runs in processes of its own (`child`), twice:

1. The answer is called on inputs that were drawn for this one grading, without access to the course's solution. The
   replies are plain data (`wire`), which the grader decodes and compares with its own reference in disposable processes
   (`judge`). Only an answer that agrees in values, dtypes and gradients can pass.
2. Then the course's own check runs beside the answer. It is believed when it reports "failed", because a forger gains
   nothing by that, and its message is what the student reads.
"""


class Refused(Exception):
    """Something cannot be graded; the message says why and what to do."""

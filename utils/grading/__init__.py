"""Grade a folder of submitted notebooks: `python -m utils.grading FOLDER`, or `make grade FOLDER=...`.

Two sides, and nothing but plain values between them. The teacher's side reads the folder, holds the references and decides;
it never runs, parses or unpickles what a student wrote. The other side is a sandbox (`sandbox`, `fork_server`) in which
each exercise of each submission gets two fresh processes (`child`):

1. The first runs the course's own check beside the answer. What it says is believed when it says "failed", because a
   forger gains nothing by that, and its words are what the student reads.
2. The second is asked what the answer gives for inputs that were drawn for this one grading. It has no course files, and
   the course's own version of this exercise is taken out of it. The teacher's side compares what comes back with its
   own reference (`judge`). Only an answer that stands here too has passed.
"""

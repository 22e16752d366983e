"""Exercises and quizzes: `lessonNN.py` has what the lesson's source cannot say, `solutions/` what `make notebooks` took from it."""

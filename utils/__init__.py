"""The library behind the lessons.

Imports go one way: `models` and `data` know nothing of the rest, `training` knows both, `draw` takes arrays and
strings, and `course` is the only room that knows notebooks exist.
"""

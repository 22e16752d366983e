"""The library of the course.

Imports go one way: `models` and `data` import nothing else of ours, `training` imports both, `plots` and `widgets` take
arrays, strings and functions, and only `checks`, `exercises`, `build` and `grading` know that notebooks exist.
"""

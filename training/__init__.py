"""The built-in training program, the first user of `compilegate.job`.

It imports nothing else of this project, and supports the oldest container: Python 3.9 and torch
1.13.
"""

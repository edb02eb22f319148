"""The built-in training program, the first user of `compilegate.job`.

It imports nothing else of this project, and runs in the oldest container that it must: Python 3.9
and torch 1.13.
"""

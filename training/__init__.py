"""The data plane: what runs inside a training container.

Nothing here imports the rest of the project. It is written in the Python of the oldest
container it must run in: Python 3.9 and torch 1.13.
"""

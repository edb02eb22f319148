"""What runs in a training container: compilers, steps, probes, and the evidence that is written.

Nothing here imports the rest of this project. It is written in Python 3.8 with numpy; torch is
imported where it is used.
"""

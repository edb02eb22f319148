"""What serves the models of built-in programs: each file is the `code/inference.py` of an archive.

They run in inference images, so they import nothing of this project.
"""

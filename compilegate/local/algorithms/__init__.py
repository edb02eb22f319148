"""AWS's built-in algorithms: which images are theirs, and the programs that stand for them here.

images.py     which image is which algorithm, and what it needs
metrics.py    the metrics that an algorithm's jobs have without declaring them
programs/     what trains: each runs by itself, in the environment of the image
"""

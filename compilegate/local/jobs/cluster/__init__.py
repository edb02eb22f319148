"""A job on several instances: as many processes on this machine, each with a root of its own.

hosts.py       what the instances are called, and what a program reads about them
running.py     starts them together; the first that fails ends the others
gathering.py   what they leave, in one place
launchers.py   the programs that start a script in several processes
"""

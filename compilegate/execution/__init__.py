"""What an execution is, wherever it runs.

    status.py      where it runs (`Target`), and the states of an execution and its steps
    result.py      its result and that of each step, and what it means for a script
    events.py      what happens while it runs; `follow` polls a target that sends no events
    executor.py    what the command needs from a target: the seam for another one
    exit_codes.py  the command's exit status

`compilegate.local` and `compilegate.account` are the two targets.
"""

"""What an execution is, wherever it runs.

    target.py      where a workload can run: here, or on SageMaker
    executor.py    what a target has to do for the command: the seam for another one
    status.py      the words for the state of an execution and its steps
    events.py      what happens while it runs; looking.py: at a target that sends no events
    result.py      the result, and that of each step; outcome.py: what it means for a script
    exit_codes.py  the command's exit status

`compilegate.local` and `compilegate.account` are the two targets.
"""

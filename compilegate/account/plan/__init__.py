"""What an execution would cost and need, before anything is started.

jobs.py      the jobs of a definition: instances and limits                        pure
budget.py    the most that they can cost, against what the workload declares
quotas.py    what the account's quotas say to them
planning.py  all of it for one workload, and whether its definition is the deployed one
"""

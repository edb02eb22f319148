"""What an execution would change, find in the cache, cost and need, before anything is started.

changes.py      this checkout's definition against the deployed one, step by step     pure
history.py      the latest executions: what they ran and with which requests
prediction.py   which steps the step cache would serve                                pure
jobs.py         the jobs of a definition: instances and limits                        pure
cost.py         what they cost, from the catalog's prices and earlier durations       pure
quotas.py       what the account's quotas say to them                                 pure
planning.py     all of it for one workload
"""

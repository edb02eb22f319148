"""What an execution would change, find in the cache, cost and need, before anything is started.

changes.py      this checkout's definition against the deployed one, step by step     pure
prediction.py   which steps the step cache would serve, by the latest executions
jobs.py         the jobs of a definition: instances and limits                        pure
cost.py         what they cost, by the catalog and earlier durations; storage, network
quotas.py       what the account's quotas say to them                                 pure
planning.py     all of it for one workload
"""

"""What holds a workload up on a machine: `profile` says where a step's time goes and `batch_size`
searches for the largest batch. `jobs` are those that profile an arm or examine what it trains in.
"""

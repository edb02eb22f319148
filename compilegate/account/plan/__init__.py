"""What an execution would cost and need, before anything is started."""

"""What executions may cost: as a deployment checks it, the notifier gets it, and AWS counts it."""

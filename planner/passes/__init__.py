"""One optimiser pass per module; their order is `planner.optimizer.PASSES`."""

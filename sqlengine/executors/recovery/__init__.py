"""Takes checkpoints of a graph, and goes on from them after a crash."""

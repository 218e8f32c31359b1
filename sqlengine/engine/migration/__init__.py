"""Takes jobs with what they have from graph to graph, and out of them and back."""

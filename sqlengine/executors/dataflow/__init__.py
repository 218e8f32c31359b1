"""The way of rows through the operators of one graph."""

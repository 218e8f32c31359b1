"""The user's own functions in Python: they run in processes of their own, and fail alone."""

"""Views of jobs: how far each is, what it keeps, what it waits for."""

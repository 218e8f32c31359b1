"""The routes of jobs."""

"""Parts of a task: its rules, functions, askers, answers, state, work and steps."""

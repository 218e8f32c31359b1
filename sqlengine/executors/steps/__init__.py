"""The steps of graphs: watched while they run, limited, and ended."""

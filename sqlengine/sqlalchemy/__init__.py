"""The SQLAlchemy dialect, for 1.4 and 2: `create_engine("sqlengine://127.0.0.1:8083")`."""

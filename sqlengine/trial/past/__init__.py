"""Rules over the past of the tables that they read: `sql backtest`."""

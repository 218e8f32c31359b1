"""Rules over rows that are given, apart from any server: what tests of rules are made of."""

"""Nexmark: auctions, their bids and the people who make them, and the queries over them."""

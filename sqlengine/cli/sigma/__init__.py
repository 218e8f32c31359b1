"""`sql sigma`."""

"""`sql shell`: statements typed one after the other, here or on a server."""

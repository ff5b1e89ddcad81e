"""Keys on this machine, and transfers that they sign."""

"""The commands that save proofs, and check them without a node."""

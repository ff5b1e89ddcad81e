"""Running a node from its home directory."""

"""The commands that show a chain."""

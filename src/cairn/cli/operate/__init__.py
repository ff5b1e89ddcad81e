"""The commands with which an operator looks after a node."""

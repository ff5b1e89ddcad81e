"""Cairn: a blockchain node with an interface that anyone can use with curl."""

__version__ = "0.1.0"

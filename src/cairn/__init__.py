"""Cairn: a blockchain node with an interface that anyone can use with curl."""

__version__ = "1.0.0rc1"

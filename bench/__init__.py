"""Measures a real node over real HTTP on loopback: `make bench`."""

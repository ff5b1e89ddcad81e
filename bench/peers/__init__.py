"""Cairn beside geth, anvil, hardhat and ganache on one machine: `make bench-peers`."""

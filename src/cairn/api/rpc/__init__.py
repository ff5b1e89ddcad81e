"""Ethereum's JSON-RPC over the same chain and the same mempool as the REST interface."""

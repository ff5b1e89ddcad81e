"""Transactions that wait for a block: plain objects in memory, without a clock or a disk."""

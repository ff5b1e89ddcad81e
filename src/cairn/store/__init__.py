"""The only disk code: the chain in RocksDB, the mempool's journal beside it, and what holds after a crash."""

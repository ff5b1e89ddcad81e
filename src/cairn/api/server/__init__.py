"""The HTTP and WebSocket server of a worker: connections, limits, the fast path."""

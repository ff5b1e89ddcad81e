"""The public API: REST, WebSocket events, JSON-RPC and probes, served by the workers."""

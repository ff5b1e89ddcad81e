"""The public interface: REST, WebSocket events and probes, served by the workers."""

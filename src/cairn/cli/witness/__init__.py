"""The witness: a partner's small process that notices when a chain is rewritten."""

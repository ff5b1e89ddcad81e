"""WS /events: who follows what, and what they are told."""

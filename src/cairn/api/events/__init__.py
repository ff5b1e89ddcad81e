"""WS /events: subscriptions, and the events that they get."""

"""One greedy client on every route and method, and what another client sees meanwhile."""

"""`cairn forward`: the chain's events as signed webhooks."""

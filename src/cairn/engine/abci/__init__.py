"""The ABCI 2.0 server, to which CometBFT connects."""

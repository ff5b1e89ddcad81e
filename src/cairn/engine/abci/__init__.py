"""CometBFT's side of the node: the ABCI 2.0 server that its application connections speak to."""

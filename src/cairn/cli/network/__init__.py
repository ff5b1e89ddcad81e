"""The homes, nodes and validators of a network."""

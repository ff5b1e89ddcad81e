"""The engine for a chain of many validators: CometBFT orders, this package is its application."""

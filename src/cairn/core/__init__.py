"""The core process: the only writer."""

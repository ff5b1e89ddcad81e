"""How far a network goes: validators that are far apart, and nodes that share the readers (`make bench-scale`)."""

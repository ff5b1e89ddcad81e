"""What following addresses costs a node, and how soon its clients are told."""

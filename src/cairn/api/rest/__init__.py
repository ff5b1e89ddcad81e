"""The REST interface: what each route takes and answers."""

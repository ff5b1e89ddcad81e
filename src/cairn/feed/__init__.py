"""What was committed, told in order."""

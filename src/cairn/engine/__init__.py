"""What orders transactions into blocks: the application that every engine drives, and our own engine."""

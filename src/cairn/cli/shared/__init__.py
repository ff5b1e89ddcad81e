"""What all commands use: amounts, the node they speak to, and what people read."""

"""Checks a whole store: every block is executed again, and all that is stored is compared with the outcome."""

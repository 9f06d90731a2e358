"""`python -m quadrants`."""

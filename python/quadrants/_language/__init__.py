"""What may stand in a kernel, and what the decorators make of a function."""

"""Empty module for programs that set `__debug__` in it."""

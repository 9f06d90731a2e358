"""Exists for programs that set `__debug__` in it; nothing reads it."""

"""Django's SQLite backend, for a file that must never be replaced by an empty one."""

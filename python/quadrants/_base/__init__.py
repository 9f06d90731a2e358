"""The modules that all others import: data types, errors, options, sources. They import only `_runtime`."""

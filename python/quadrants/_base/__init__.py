"""What every other module stands on: data types, errors, options, sources. Knows only `_runtime`."""

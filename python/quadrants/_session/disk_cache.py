"""`qd.cache_info` and `qd.clear_cache`: the contents of the disk cache of compiled kernels."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .. import _runtime
from .._base import options as _options


class CacheInfo(NamedTuple):
    """Contents of the disk cache, and how this process used it."""

    folder: str
    """Path of the folder."""
    is_used: bool
    """Whether this process stores kernels there, or would after `qd.init()`."""
    entries: int
    """Number of files with compiled code."""
    nbytes: int
    """Their total size in bytes."""
    limit: int
    """Size in bytes beyond which entries are removed, the least recently used ones first."""
    loaded: int
    """Number of kernels that this process loaded from it."""
    compiled: int
    """Number of kernels that this process compiled."""

    def __str__(self) -> str:
        use = "" if self.is_used else " (not used)"
        size = f"{self.entries} entries, {self.nbytes / 2**20:.1f} of {self.limit / 2**20:.0f} MiB"
        return f"{self.folder}{use}: {size}; this process: {self.loaded} loaded, {self.compiled} compiled"


def find_folder(options: dict[str, Any]) -> Path:
    """Returns the folder of the disk cache of a runtime with these options."""
    if options["offline_cache_file_path"]:
        return Path(options["offline_cache_file_path"])
    home = os.environ.get("XDG_CACHE_HOME")  # a location that the system defines, no option of Quadrants
    return (Path(home) if home else Path.home() / ".cache") / "quadrants" / "qdcache"


def _entries(folder: Path) -> Iterator[Path]:
    # Includes folders of other versions.
    return (path for path in folder.glob("kernels-*/??/*") if path.is_file() and not path.is_symlink())


def cache_info() -> CacheInfo:
    """Return the contents of the disk cache. Without a runtime, of the cache that `qd.init()` would use."""
    options = _options.collect({})[0] if _options.current is None else _options.current
    folder = find_folder(options)
    sizes = []
    for path in _entries(folder):
        with contextlib.suppress(FileNotFoundError):  # another process may have deleted it
            sizes.append(path.stat().st_size)
    counts = _runtime.statistics()
    is_used = bool(options["offline_cache"])
    limit = options["offline_cache_max_size_of_files"]
    return CacheInfo(str(folder), is_used, len(sizes), sum(sizes), limit, counts["loaded"], counts["compiled"])


def clear_cache() -> int:
    """Remove all entries of the disk cache and return their number. Processes that loaded entries are not affected."""
    count = 0
    for path in _entries(Path(cache_info().folder)):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count

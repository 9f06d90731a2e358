"""Builtins of the compiler for cooperating threads; the rest of `qd.simt` is written with them."""

from __future__ import annotations

from typing import Any

from .._base import device as _device
from .._base.dtypes import is_real, to_dtype
from .._base.errors import QuadrantsSyntaxError, QuadrantsTypeError
from .._language.builtins import Builtin
from .._language.fold_operators import BY_NAME as _OPERATORS


def _primitive(name: str, doc: str, parameters: str = "") -> Builtin:
    return Builtin(f"simt.{name}", parameters, doc)


block_sync = _primitive("block.sync", "Waits for all threads of the block and makes their stores visible.")
block_mem_fence = _primitive("block.mem_fence", "Orders memory accesses before it and after it, as seen by the threads of the block.")
thread_idx = _primitive("block.thread_idx", "The number of the thread in its block, i32.")
global_thread_idx = _primitive("block.global_thread_idx", "The number of the thread in the launch of its loop, i32.")
block_idx = _primitive("block.block_idx", "The number of the block in the launch of its loop, i32.")
block_dim = _primitive("block.block_dim", "The number of threads of a block, i32: the loop's `block_dim`.")
require_block = _primitive("require_block", "Requires so many threads in the blocks of the loop.", "threads")
num_blocks = _primitive("block.num_blocks", "The number of blocks in the launch of the loop, i32.")
SharedArray = _primitive(
    "block.SharedArray", "SharedArray(shape, dtype): an uninitialized array that the threads of a block share. `shape`: an int or a tuple "
    "of ints; `dtype`: a scalar, vector or matrix type.", "shape dtype",
)  # fmt: skip
copy_async = _primitive("block.copy_async", "Copies an element to one of a shared array; see `wait_copies`.", "target source")
wait_copies = _primitive("block.wait_copies", "Waits for all copies that the thread began with `copy_async`.")
exchange_array = _primitive("exchange_array", "The array by which threads of a block exchange values of a type.", "dtype")
group_sync = _primitive("subgroup.sync", "Waits for the threads of the subgroup and makes their stores visible.", "lanes?")
group_mem_fence = _primitive("subgroup.mem_fence", "Orders memory accesses before it and after it, as seen by the threads of the subgroup.")
shuffle = _primitive("subgroup.shuffle", "shuffle(value, lane): the value of another lane.", "value lane lanes?")
reshuffle = _primitive("reshuffle", "`shuffle` of the value of the previous shuffle, without another wait.", "value lane lanes?")
ballot = _primitive("subgroup.ballot", "ballot(predicate): a bit for each lane of the subgroup, u64.", "predicate lanes?")
active_mask = _primitive("subgroup.active_mask", "A bit for each lane that calls this function together with this one, u64.")
is_word = _primitive("is_word", "Whether the value is an integer of at most 32 bits, which devices combine by one instruction.", "value")
combine = _primitive("combine", "The values of so many neighboring lanes, which all call it, combined.", "value operator lanes")
pin = _primitive("pin", "The value, computed here: operations on shuffled values are not moved to their use.", "value")
grid_mem_fence = _primitive("grid.mem_fence", "Orders memory accesses before it and after it, as seen by all threads.")
grid_sync = _primitive("grid.sync", "Waits for all threads of all blocks and makes their stores visible. All blocks run concurrently.")
# Names of operators in the compiler.
COMBINED = {_OPERATORS["add"][0]: "add", _OPERATORS["min"][0]: "min", _OPERATORS["max"][0]: "max"}
largest = _primitive("largest", "The largest value of the operand's type; for floats infinity.", "value")
smallest = _primitive("smallest", "The smallest value of the operand's type; for floats minus infinity.", "value")


def count_steps(log2_size: int | None) -> int:
    """Returns the logarithm to base 2 of the lanes of a tile; None stands for the subgroup. Raises QuadrantsSyntaxError for other tiles."""
    if log2_size is None:
        return _device.LOG2_SUBGROUP_SIZE
    if not isinstance(log2_size, int) or not 0 <= log2_size <= _device.LOG2_SUBGROUP_SIZE:
        limits = f"[0, {_device.LOG2_SUBGROUP_SIZE}], as a subgroup has {_device.SUBGROUP_SIZE} lanes"
        raise QuadrantsSyntaxError(f"log2_size must be an integer in {limits}, got {log2_size!r}")
    return log2_size


def check_values(given: Any, wanted: Any) -> None:
    """Raises QuadrantsTypeError if values of the data type `given` lose digits as `wanted`."""
    dtype = to_dtype(wanted)
    if is_real(given) > is_real(dtype) or (is_real(given) == is_real(dtype) and given.size > dtype.size):
        raise QuadrantsTypeError(
            f"the values of the block are {given}, dtype is {dtype}: give the dtype {given}, or cast the values before"
        )


def check_block(block_dim: int) -> None:
    """Raises QuadrantsSyntaxError if a block of this many threads does not consist of whole subgroups."""
    if not isinstance(block_dim, int) or block_dim < 1 or block_dim % _device.SUBGROUP_SIZE:
        raise QuadrantsSyntaxError(f"block_dim must be a positive multiple of subgroup size ({_device.SUBGROUP_SIZE}), got {block_dim!r}")


def check_digits(block_dim: int, radix_bits: int, num_bits: int) -> None:
    """Raises if a block cannot rank digits: it needs one thread for each value of a digit."""
    if block_dim != 1 << radix_bits:
        raise QuadrantsSyntaxError(f"block_dim must equal RADIX_DIGITS = {1 << radix_bits}, got {block_dim}")
    if not 0 < num_bits <= radix_bits:
        raise QuadrantsTypeError(f"num_bits must be in [1, {radix_bits}], got {num_bits}")

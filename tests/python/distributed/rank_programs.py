"""What the ranks of the tests do. Each function is called by every rank, and returns what JSON can hold."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import quadrants as qd


def start(**options: Any) -> Any:
    return qd.distributed.init(arch=qd.cpu, log_level="error", timeout=30, ranks_per_device=8, **options)  # on one GPU, too


def digest(array: np.ndarray | None) -> str | None:
    return None if array is None else hashlib.sha256(array.tobytes()).hexdigest()


def heat(cells: int, steps: int) -> Any:
    import heat as example

    start()
    return digest(example.run((cells, cells, cells), steps))


# What a container may be: data type, extents of elements, how it is made.
KINDS = [
    ("f32", (), "ndarray"), ("f64", (3,), "field"), ("i8", (), "field"), ("u64", (2, 2), "ndarray"), ("f16", (2,), "columns"),
    ("u1", (), "ndarray"), ("bf16", (3,), "ndarray"), ("i32", (2,), "apart"), ("u16", (), "columns"), ("f32", (), "offset"),
]  # fmt: skip
NOWHERE = 77  # the value of borders that nobody fills


def make_container(part: Any, name: str, element: list[int], how: str) -> Any:
    dtype = getattr(qd, name)
    if element:
        dtype = qd.types.vector(*element, dtype) if len(element) == 1 else qd.types.matrix(*element, dtype)
    backend = qd.Backend.FIELD if how in ("field", "columns") else qd.Backend.NDARRAY
    layout = tuple(reversed(range(len(part.shape)))) if how == "columns" else None
    return part.tensor(
        dtype, backend=backend, layout=layout, element_layout="SOA" if how == "apart" else "AOS", global_indices=how == "offset"
    )


def number_cells(part: Any, element: tuple[int, ...], is_truth: bool) -> np.ndarray:
    """An array over the whole box, and the border around it, in which every cell differs from its neighbors."""
    rng = np.random.default_rng(5)
    return rng.integers(0, 2 if is_truth else 64, (*part.shape, *element))


def expect(part: Any, whole: np.ndarray, is_periodic: tuple[bool, ...], corners: bool) -> tuple[np.ndarray, np.ndarray]:
    """What a part with its border holds after an exchange, and which of its cells are determined."""
    padded, rank = whole, len(part.shape)
    for axis, (width, wraps) in enumerate(zip(part.width, is_periodic, strict=True)):
        pads = [(width, width) if a == axis else (0, 0) for a in range(padded.ndim)]
        padded = np.pad(padded, pads, mode="wrap") if wraps else np.pad(padded, pads, constant_values=NOWHERE)
    local = padded[tuple(slice(first, first + n) for first, n in zip(part.start, part.local_shape, strict=True))]
    known = np.ones(local.shape, bool)
    if not corners:
        outside = np.zeros(part.local_shape, int)
        for axis, (first, end) in enumerate(part.own):
            index = np.arange(part.local_shape[axis])
            shape = [-1 if a == axis else 1 for a in range(rank)]
            outside += ((index < first) | (index >= end)).reshape(shape)
        known[outside > 1] = False
    return local, known


def exchange(shape: list[int], width: Any, periodic: Any, axes: Any, parts: Any, corners: bool) -> Any:
    """Exchanges the borders of containers of every kind at once and one by one, and counts wrong cells."""
    start()
    part = qd.distributed.Decomposition(shape, width, periodic, axes, parts)
    is_periodic = tuple(periodic) if isinstance(periodic, list) else (periodic,) * len(shape)
    containers, wholes = [], []
    for name, element, how in KINDS:
        container = make_container(part, name, element, how)
        container.fill(1 if name == "u1" else NOWHERE)
        wholes.append(number_cells(part, tuple(element), name == "u1"))
        part.scatter(wholes[-1], container)
        containers.append(container)
    halos = [qd.distributed.Halo(containers[:4], decomposition=part, corners=corners)]
    halos += [qd.distributed.Halo(container, decomposition=part, corners=corners) for container in containers[4:]]
    for halo in halos:
        halo.start()
    for halo in halos:
        halo.finish()
    wrong = {}
    for (name, element, how), container, whole in zip(KINDS, containers, wholes, strict=True):
        expected, known = expect(part, whole, is_periodic, corners)
        expected = np.where(expected == NOWHERE, 1, expected) if name == "u1" else expected
        wrong[f"{name} {element} {how}"] = int(((container.to_numpy().astype(np.int64) != expected) & known).sum())
        gathered = part.gather(container)
        if gathered is not None:
            wrong[f"{name} {element} {how}"] += int((gathered.astype(np.int64) != whole).sum())
    return {"wrong": {key: count for key, count in wrong.items() if count}, "parts": part.parts}


def add_borders(shape: list[int], width: int, periodic: bool) -> Any:
    """Every rank adds 1 to all cells that it stores; after the borders are added, a cell holds the number of parts that store it."""
    world = start()
    part = qd.distributed.Decomposition(shape, width, periodic)
    counts = part.tensor(qd.i32)
    counts.fill(1)
    qd.distributed.Halo(counts, decomposition=part).add()
    expected = np.zeros(shape, np.int64)
    for each in world.all_gather((part.offset, part.local_shape)):
        index = [np.arange(first, first + n) for first, n in zip(*each, strict=True)]
        if not periodic:
            index = [line[(line >= 0) & (line < n)] for line, n in zip(index, shape, strict=True)]
        np.add.at(expected, np.ix_(*(line % n for line, n in zip(index, shape, strict=True))), 1)
    gathered = part.gather(counts)
    return 0 if gathered is None else int((gathered != expected).sum())


def exchange_on_an_emulated_gpu(folder: str) -> Any:
    """Counts the wrong cells of exchanges through the memory of the processor, of faces that lie together and apart, in a ring."""
    import emulated_gpu

    world, streams = emulated_gpu.start(Path(folder, os.environ["RANK"]))
    wrong, used = {}, []
    for axis in (0, 1):
        part = qd.distributed.Decomposition((6, 8), 1, True, [axis])
        x, whole = part.tensor(qd.f32), np.arange(48.0).reshape(6, 8)
        halo = qd.distributed.Halo(x, decomposition=part)
        for number, do in enumerate((halo.exchange, lambda halo=halo: (halo.start(), halo.finish()))):
            part.scatter(whole + number, x)
            streams.clear()
            do()
            used.append(len(set(streams) - {0}))
            wrong[f"{axis} {number}"] = int((x.to_numpy() != expect(part, whole + number, (True, True), True)[0]).sum())
        x.fill(1)
        halo.add()
        sums = np.ones(part.local_shape)
        sums.swapaxes(0, axis)[[1, -2]] += 1
        wrong[f"{axis} add"] = int((x.to_numpy() != sums).sum())
    return {"wrong": wrong, "streams": used, "arch": qd.cfg.arch.name, "staged": not world._engine.sends_device_memory}


def halo_of_a_struct_without_decomposition() -> Any:
    world = start()
    Cell = qd.types.struct(mass=qd.f64, flow=qd.types.vector(2, qd.f32))
    cells = Cell.field(shape=(6, 3))
    cells.mass.fill(world.rank + 1)
    cells.flow.fill(world.rank + 1)
    qd.distributed.Halo(cells, axes=[0], width=2, periodic=True).exchange()
    return [cells.mass.to_numpy()[:, 0].tolist(), cells.flow.to_numpy()[:, 2, 1].tolist()]


def boxes_of_a_part(shape: list[int], width: int) -> Any:
    """Counts how often interior and rim name each cell of the part."""
    start()
    part = qd.distributed.Decomposition(shape, width)
    counts = np.zeros(part.local_shape, int)
    for box in [part.interior, *part.rim]:
        counts[tuple(slice(*ends) for ends in box)] += 1
    own = counts[tuple(slice(*ends) for ends in part.own)]
    return [own.min().item(), own.max().item(), int(counts.sum() - own.sum())]


def operations() -> Any:
    world = start()
    numbers = qd.field(qd.f64, shape=3)
    numbers.fill(world.rank + 1)
    world.all_reduce(numbers)
    sent = [None if peer == 0 else np.full((world.rank, peer), 10 * world.rank + peer, np.int16) for peer in range(world.size)]
    received = world.all_to_all(sent)
    world.barrier()
    with_problem = []
    for value, operation in ((np.uint16([1]), "sum"), (1.0, "product")):
        try:
            world.all_reduce(value, operation)
        except (qd.QuadrantsRuntimeError, ValueError) as error:
            with_problem.append(str(error))
    return {
        "sum": numbers.to_numpy().tolist(),
        "min": world.all_reduce(float(world.rank), "min"),
        "max": world.all_reduce(np.array([world.rank, -world.rank]), "max").tolist(),
        "all": world.all_gather(world.rank),
        "received": [array.tolist() for array in received],
        "local": [world.local_rank, world.local_size],
        "threads": qd.cfg.cpu_max_num_threads,
        "problems": with_problem,
    }


def random_numbers() -> Any:
    start(random_seed=3)

    @qd.kernel
    def draw() -> qd.f32:
        return qd.random()

    return draw()


def mistake(which: str) -> str:
    """Returns the message of the exception that every rank raises."""
    world = start()
    part = qd.distributed.Decomposition((8, 6), axes=[0])
    try:
        if which == "shapes differ":
            qd.distributed.Decomposition((8, 6 + world.rank))
        elif which == "wide border":
            qd.distributed.Halo(qd.field(qd.f32, (5, 4)), axes=[0], width=2)
        elif which == "faces differ":
            qd.distributed.Halo(qd.field(qd.f32, (8, 4 + world.rank)), axes=[0, 1])
        elif which == "types differ":
            qd.distributed.Halo(qd.field(qd.f32 if world.rank else qd.f64, (8, 4)), axes=[0])
        elif which == "too many parts":
            qd.distributed.Decomposition((3, 3), width=3)
        elif which == "different calls":
            (qd.distributed.Decomposition if world.rank else qd.distributed.Halo)(qd.field(qd.f32, 8) if world.rank == 0 else 8)
        elif which == "another shape":
            qd.distributed.Halo(part.tensor(qd.f32) if world.rank else qd.field(qd.f32, (8, 8)), decomposition=part)
        elif which == "no container":
            qd.distributed.Halo(np.zeros(4) if world.rank else qd.field(qd.f32, 8))
        elif which == "runtime":
            qd.distributed.init(arch=qd.cpu, **({"opt_level": "high"} if world.rank else {}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no exception"


def lattice_boltzmann(cells: int, steps: int) -> Any:
    import lattice_boltzmann as example

    start()
    return digest(example.run(cells, steps))


def migrating_particles(cells: int, steps: int) -> Any:
    import migrating_particles as example

    start()
    return example.run(cells, steps)


def data_parallel(measurements: int, rounds: int) -> Any:
    import data_parallel as example

    start()
    return example.train(measurements, rounds)


def heat_in_two_runs(path: str, steps: int) -> Any:
    """Saves the state of a run halfway; returns what a run from there gives."""
    import heat as example

    start()
    heat = example.Heat((24, 24, 24))
    for _ in range(steps):
        heat.step()
    heat.part.save(path, {"temperature": heat.old})
    return digest(resume_heat(path, steps))


def resume_heat(path: str, steps: int) -> Any:
    import heat as example

    heat = example.Heat((24, 24, 24))
    heat.part.load(path, {"temperature": heat.old})
    heat.halos[id(heat.old)].exchange()
    for _ in range(steps):
        heat.step()
    return heat.part.gather(heat.old)


def resume(path: str, steps: int) -> Any:
    start()
    return digest(resume_heat(path, steps))


def bad_files(folder: str) -> list[str]:
    world = start()
    part = qd.distributed.Decomposition((8, 6))
    x = part.tensor(qd.f32)
    messages = []
    for what in (
        lambda: part.save(f"{folder}/nowhere/state", {"x": x}),
        lambda: part.load(f"{folder}/state", {"x": x}),
        lambda: (part.save(f"{folder}/state", {"x": x}), part.load(f"{folder}/state", {"y": x})),
        lambda: part.load(f"{folder}/state" if world.rank else f"{folder}/other", {"x": x}),
    ):
        try:
            what()
            messages.append("no exception")
        except ValueError as error:
            messages.append(str(error))
    return messages


def die_in_an_exchange() -> Any:
    """The last rank ends between two exchanges; the others return what they are told."""
    world = start()
    x = qd.field(qd.f32, (9, 4))
    halo = qd.distributed.Halo(x, axes=[0])
    for step in range(1000):
        if world.rank == world.size - 1 and step == 3:
            if world.engine == "torch":
                os._exit(0)  # without a word
            raise RuntimeError("this rank has a mistake")
        try:
            halo.exchange()
        except qd.QuadrantsRuntimeError as error:
            return str(error)
    return "no rank died"


def count_compilations(folder: str) -> Any:
    """Returns how many kernels this rank compiled, with a new disk cache, and how many the cache has in the end."""
    import heat as example

    before = qd.cache_info().compiled
    world = start(offline_cache_file_path=folder)
    example.run((16, 16, 16), 2)
    world.barrier()
    return qd.cache_info().compiled - before, qd.cache_info().entries


def compile_slowly() -> Any:
    """One rank needs longer for its kernels than the others."""
    import heat as example

    from quadrants._session import prepare

    world = start(offline_cache=False)
    compile_plain = prepare.compile_kernel

    def compile_after_a_pause(*arguments: Any) -> Any:
        time.sleep(0.7 * (world.rank == 1))
        return compile_plain(*arguments)

    prepare.compile_kernel = compile_after_a_pause
    try:
        return digest(example.run((24, 24, 24), 10))
    finally:
        prepare.compile_kernel = compile_plain

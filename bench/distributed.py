"""Measures programs of several processes: scaling, borders, starts.

    python bench/distributed.py --ranks 1 2 --one-thread --beside --out bench/results/distributed_cpu.json
    python bench/distributed.py --ranks 1 2 4 8 --arch cuda --cells 512 --out bench/results/distributed_gpus.json
    python bench/distributed.py --ranks 1 2 --arch cuda --ranks-per-device 2     # a rehearsal on one GPU

For each number of ranks it starts them with torchrun. Their figures are the slowest rank's, and medians of several rounds. Cases:

    heat, fluid    examples/heat.py with so many cells along each axis for each rank (weak) or for all ranks (strong), and
                   examples/lattice_boltzmann.py with --fluid-cells (default: four times as many); seconds for a step, processor
                   seconds for a step, and seconds for a step without the exchange; digests of a small box, which are equal for all
                   numbers of ranks
    halo           a domain of so many cells along each axis, cut along the first or the last axis: microseconds and processor
                   microseconds for an exchange, and for the same messages and copies written in torch by hand: of faces that torch
                   packs and unpacks, and of packed arrays of their size ("bare")
    start          seconds from the start of the process, of `init` alone, and from there to the end of the first step of heat, with a
                   new ("cold") and with a used disk cache ("warm"); and kernels compiled. Parts with neighbors need kernels that copy
                   faces, which one rank alone does not
    torch_start    the same in torch alone: import, process group, memory on the GPU, messages with the neighbors. What "start" has to
                   add to it is ours
    particles      examples/migrating_particles.py: number and energy at the end
    training       examples/data_parallel.py: what it finds
    programs       one process with a qd.Program on each GPU: seconds for steps on all of them, over those on one

The ratios at the end of the file are what docs/design/scaling.md shows: efficiency of weak scaling (1 rank over n), of strong scaling
(1 rank over n times n), start (n ranks over 1).
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import quadrants as qd

CASES = ("heat", "fluid", "halo", "start", "torch_start", "particles", "training", "programs")
STARTS = ("start", "torch_start")  # need processes of their own
ROUNDS = 5


def digest(array: Any) -> str | None:
    return None if array is None else hashlib.sha256(array.tobytes()).hexdigest()[:16]


def synchronize() -> None:
    qd.sync()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.synchronize()


def take_time(work: Callable[[], Any], count: int) -> tuple[float, float]:
    """Returns seconds and processor seconds of one of `count` calls, the largest of all ranks, the median of several rounds."""
    world = qd.distributed.get_world()
    work()
    wall, processor = [], []
    for _ in range(ROUNDS):
        world.barrier()
        before, before_cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            work()
        synchronize()
        wall.append((time.perf_counter() - before) / count)
        processor.append((time.process_time() - before_cpu) / count)
    both = [statistics.median(wall), statistics.median(processor)]
    return tuple(max(each) for each in zip(*world.all_gather(both), strict=True))


def measure_steps(simulation: Any, steps: int) -> dict[str, float]:
    seconds, processor = take_time(simulation.step, steps)
    for halo in simulation.halos.values():  # the same work without messages
        halo.start = halo.finish = lambda: None
    alone, _ = take_time(simulation.step, steps)
    return {"seconds": seconds, "cpu_seconds": processor, "seconds_without_exchange": alone}


def run_heat(given: Any) -> dict[str, Any]:
    import heat

    size = qd.distributed.get_world().size
    along = qd.distributed.Decomposition((given.cells,) * 3).parts
    weak = measure_steps(heat.Heat(tuple(given.cells * count for count in along)), given.steps)
    strong = measure_steps(heat.Heat((given.cells,) * 3), given.steps) if size > 1 else weak
    return {"parts": along, "weak": weak, "strong": strong, "digest": digest(heat.run((40, 32, 24), 8))}


def run_fluid(given: Any) -> dict[str, Any]:
    import lattice_boltzmann

    size, cells = qd.distributed.get_world().size, given.fluid_cells or 4 * given.cells
    # The box is square: of n ranks, its area is n times as large.
    weak = measure_steps(lattice_boltzmann.Fluid(int(cells * size**0.5), 0.05), given.steps)
    strong = measure_steps(lattice_boltzmann.Fluid(cells, 0.05), given.steps) if size > 1 else weak
    return {"weak": weak, "strong": strong, "digest": digest(lattice_boltzmann.run(48, 8))}


def run_halo(given: Any) -> dict[str, Any]:
    """Exchanges of a domain that is cut along its first axis, whose faces are contiguous, and along its last one."""
    world, found = qd.distributed.get_world(), {}
    for name, axis in (("first_axis", 0), ("last_axis", 2)):
        part = qd.distributed.Decomposition((given.cells,) * 3, axes=[axis])
        x = part.tensor(qd.f32)
        halo = qd.distributed.Halo(x, decomposition=part)
        if world.size == 1:
            continue
        works = [lambda halo=halo: (halo.exchange(), synchronize()), make_messages(given, part, x), make_messages(given, part)]
        times = [[take_time(work, 20) for work in works] for _ in range(3)]
        found[name] = {"bytes": given.cells**2 * 4}
        for number, kind in enumerate(("us", "cpu_us")):
            ours, theirs, bare = (min(each[side][number] for each in times) * 1e6 for side in range(3))
            found[name] |= {kind: ours, f"by_hand_{kind}": theirs, f"beyond_{kind}": ours - theirs, f"bare_{kind}": bare}
    return found


def make_messages(given: Any, part: Any, x: Any = None) -> Callable[[], None]:
    """Returns the same messages as a program in torch would send them: the faces of `x`, or packed arrays of their size."""
    import torch
    import torch.distributed as dist

    on_gpu, uses_nccl = given.arch == "cuda", part.world._engine.sends_device_memory
    axis = part.axes[0]
    first, end = part.own[axis]
    # For each neighbor the cells that are sent, and those that are received.
    places = {part.find_neighbor(axis, side): (first, first - 1) if side < 0 else (end - 1, end) for side in (-1, 1)}
    places.pop(None, None)
    peers, device = list(places), "cuda" if on_gpu else "cpu"
    faces = {peer: [torch.zeros(given.cells, given.cells, device=device) for _ in both] for peer, both in places.items()}
    if x is not None:
        cells = x.to_torch(device, copy=False)
        faces = {peer: [cells.select(axis, place) for place in both] for peer, both in places.items()}
    packed = {peer: [face.contiguous() for face in both] for peer, both in faces.items()}  # the faces themselves if they are contiguous
    pinned = {peer: [torch.zeros(face.shape, pin_memory=on_gpu) for face in both] for peer, both in faces.items()}
    stream = torch.cuda.Stream() if on_gpu else None

    def exchange_on_host(buffers: Any) -> None:
        requests = [dist.irecv(buffers[peer][1], peer) for peer in peers] + [dist.isend(buffers[peer][0], peer) for peer in peers]
        for request in requests:
            request.wait()

    def copy(to: Any, of: Any, side: int) -> None:
        for peer in peers:
            if to[peer][side].data_ptr() != of[peer][side].data_ptr():
                to[peer][side].copy_(of[peer][side], non_blocking=True)

    def exchange_on_gpu() -> None:
        if uses_nccl:
            operations = [dist.P2POp(dist.isend, packed[peer][0], peer) for peer in peers]
            operations += [dist.P2POp(dist.irecv, packed[peer][1], peer) for peer in peers]
            for request in dist.batch_isend_irecv(operations):
                request.wait()
            return
        copy(pinned, packed, 0)
        stream.synchronize()
        exchange_on_host(pinned)
        copy(packed, pinned, 1)

    def exchange() -> None:
        with torch.cuda.stream(stream):
            copy(packed, faces, 0)
            exchange_on_gpu() if on_gpu else exchange_on_host(packed)
            copy(faces, packed, 1)
        synchronize()

    return exchange


def run_start(given: Any) -> dict[str, Any]:
    """One step in a process that has done nothing else, whose disk cache is BENCH_CACHE."""
    began = given.began
    world = begin(given, offline_cache_file_path=os.environ["BENCH_CACHE"])
    connected = time.perf_counter()
    import heat

    heat.Heat((16, 16, 16)).step()
    qd.sync()
    ended = time.perf_counter()
    each = {"process": read_process_age(), "init": connected - began, "first_step": ended - connected}
    found = {f"{name}_seconds": max(world.all_gather(seconds)) for name, seconds in each.items()}
    return found | {"compiled": world.all_gather(qd.cache_info().compiled)}


def run_torch_start(given: Any) -> dict[str, Any]:
    """The first messages of a process that uses torch alone."""
    import torch
    import torch.distributed as dist

    on_gpu = given.arch == "cuda"
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    faces = {peer: torch.zeros(2, 1 << 20, device=device) for peer in (rank - 1, rank + 1) if 0 <= peer < size}
    if on_gpu:
        torch.cuda.set_device(device)
        torch.cuda.synchronize()
    operations = [dist.P2POp(dist.isend, face[0], peer) for peer, face in faces.items()]
    operations += [dist.P2POp(dist.irecv, face[1], peer) for peer, face in faces.items()]
    for request in dist.batch_isend_irecv(operations) if operations else ():
        request.wait()
    if on_gpu:
        torch.cuda.synchronize()
    ages: list[Any] = [None] * size
    dist.all_gather_object(ages, read_process_age())
    dist.destroy_process_group()
    return {"process_seconds": max(ages)}


def read_process_age() -> float:
    """Returns the seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - started


def run_particles(given: Any) -> dict[str, Any]:
    import migrating_particles

    return migrating_particles.run(64, 200)


def run_training(given: Any) -> dict[str, Any]:
    import data_parallel

    started = time.perf_counter()
    found = data_parallel.train(64, 50, given.arch)
    return {"found": found, "seconds": time.perf_counter() - started}


def run_programs(given: Any) -> dict[str, Any]:
    """Steps of heat in a program on each GPU of one process, which are launched by turns."""
    import heat
    import torch

    if qd.distributed.get_world().size > 1 or given.arch != "cuda" or torch.cuda.device_count() < 2:
        return {}
    programs = [qd.Program(arch=qd.cuda, device_id=number) for number in range(torch.cuda.device_count())]
    shape, first, end = (given.cells + 2,) * 3, (1, 1, 1), (given.cells + 1,) * 3
    grids = []
    for program in programs:
        with program:
            grids.append([qd.ndarray(qd.f32, shape), qd.ndarray(qd.f32, shape)])

    def run(count: int) -> None:
        for program, (old, new) in list(zip(programs, grids, strict=True))[:count]:
            with program:
                for _ in range(given.steps):
                    heat.diffuse(old, new, first, end, heat.RATE)
        for program in programs[:count]:
            with program:
                qd.sync()

    one, every = take_time(lambda: run(1), 1)[0], take_time(lambda: run(len(programs)), 1)[0]
    return {"devices": len(programs), "seconds_on_one": one, "seconds_on_all": every, "ratio": every / one}


def begin(given: Any, **options: Any) -> Any:
    threads = {"cpu_max_num_threads": 1} if given.one_thread else {}
    return qd.distributed.init(
        arch=given.arch,
        log_level="error",
        ranks_per_device=given.ranks_per_device,
        enable_fallback=False,
        timeout=120,
        **threads,
        **options,
    )


def run_as_rank(given: Any) -> None:
    given.began = time.perf_counter()
    if given.cases == ["torch_start"]:
        found = run_torch_start(given)
        if os.environ["RANK"] == "0":
            Path(os.environ["BENCH_REPORT"]).write_text(json.dumps({"torch_start": found}))
        return
    if given.cases != ["start"]:  # which begins by itself
        begin(given)
    report = {case: globals()[f"run_{case}"](given) for case in given.cases}
    world = qd.distributed.get_world()
    report["engine"] = f"{world.engine}, {'NCCL' if world._engine.sends_device_memory else 'Gloo' if world.size > 1 else 'none'}"
    if world.rank == 0:
        Path(os.environ["BENCH_REPORT"]).write_text(json.dumps(report))


def describe_machine(arch: str) -> str:
    if arch == "cuda":
        import torch

        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{os.cpu_count()} processors, {platform.machine()}; load {os.getloadavg()[0]:.1f}"


def compare(runs: dict[str, Any]) -> dict[str, Any]:
    """Returns the ratios of each run to that of one rank."""
    one, ratios = runs.get("1"), {}
    for ranks, run in runs.items():
        if one is None or run is one:
            continue
        found = ratios[ranks] = {}
        for case in {"heat", "fluid"} & run.keys():
            for kind in ("seconds", "cpu_seconds"):
                found[f"{case}_weak_{kind}"] = round(one[case]["weak"][kind] / run[case]["weak"][kind], 3)
                found[f"{case}_strong_{kind}"] = round(one[case]["strong"][kind] / run[case]["strong"][kind] / int(ranks), 3)
            found[f"{case}_same_bits"] = run[case]["digest"] == one[case]["digest"]
        for kind in ("cold", "warm") if "start" in run else ():
            found[f"start_{kind}"] = round(run["start"][kind]["process_seconds"] / one["start"][kind]["process_seconds"], 3)
            found[f"compiled_{kind}"] = sum(run["start"][kind]["compiled"])
        if "torch_start" in run:
            found["torch_start"] = round(run["torch_start"]["process_seconds"] / one["torch_start"]["process_seconds"], 3)
    return ratios


def start_ranks(ranks: int, groups: int, folder: str, cases: list[str]) -> dict[str, Any]:
    """Returns the report of one of several groups of ranks that run side by side."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), __file__]
    running = []
    for group in range(groups):
        variables = {"BENCH_REPORT": f"{folder}/{group}.json", "BENCH_CACHE": f"{folder}/cache{group}", "OMP_NUM_THREADS": "1"}
        running.append(subprocess.Popen([*torchrun, *sys.argv[1:], "--cases", *cases], env=os.environ | variables))
    if any([process.wait() for process in running]):
        sys.exit(f"{ranks} ranks failed")
    report: dict[str, Any] = json.loads(Path(f"{folder}/0.json").read_text())
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--arch", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--cells", type=int, default=96)
    parser.add_argument("--fluid-cells", type=int, default=0, help="cells along an axis of lattice Boltzmann")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--one-thread", action="store_true", help="each rank has one thread")
    parser.add_argument("--beside", action="store_true", help="run several groups at a time, so that all have the same number of processes")
    parser.add_argument("--ranks-per-device", type=int, default=1)
    parser.add_argument("--out", help="file for the results")
    given = parser.parse_args()
    if "BENCH_REPORT" in os.environ:
        run_as_rank(given)
        return
    result: dict[str, Any] = {"command": " ".join(["python bench/distributed.py", *sys.argv[1:]]), "machine": describe_machine(given.arch)}
    result["runs"] = {}
    for ranks in given.ranks:
        # With --beside, as many processes run at a time whatever the number of ranks: all share memory and caches alike.
        groups = max(given.ranks) // ranks if given.beside else 1
        with tempfile.TemporaryDirectory() as folder:
            others = [case for case in given.cases if case not in STARTS]
            run = start_ranks(ranks, groups, folder, others) if others else {}
            if "start" in given.cases:
                run["start"] = {kind: start_ranks(ranks, groups, folder, ["start"])["start"] for kind in ("cold", "warm")}
            if "torch_start" in given.cases:
                run |= start_ranks(ranks, groups, folder, ["torch_start"])
            result["runs"][str(ranks)] = run
            print(f"{ranks} ranks: {json.dumps(run)}", flush=True)
    result["ratios"] = compare(result["runs"])
    print(json.dumps(result["ratios"], indent=1))
    if given.out:
        Path(given.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

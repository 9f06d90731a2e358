"""Compares the IR of the corpus with the digests in the repository: `./dev corpus`.

digests.txt has one line for each kernel: its name and a digest of each stage. A kernel that differs is printed as a unified diff if its
earlier IR is available: in out/corpus/, where each run leaves the IR that matches its digest, or in the folder given by --against.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import sys
from pathlib import Path

from . import checks, containers, examples, gradients, language, parallel
from .recording import find_programs, record

AREAS = {
    "checks": checks,
    "containers": containers,
    "examples": examples,
    "gradients": gradients,
    "language": language,
    "parallel": parallel,
}
STAGES = ("frontend", "x64", "cuda")
DIGESTS = Path(__file__).with_name("digests.txt")
KEPT = Path(__file__).parents[2] / "out" / "corpus"
MOST_LINES = 60  # of one difference, where several kernels differ

# kernel → stage → text, or its digest
Kernels = dict[str, dict[str, str]]


def compute_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def record_all() -> Kernels:
    """The IR of the whole corpus; names are `area.program.kernel`."""
    kernels: Kernels = {}
    for area, module in AREAS.items():
        for program, function in find_programs(module).items():
            try:
                recorded = record(function)
            except Exception as error:
                error.add_note(f"while recording {area}.{program} of the corpus")
                raise
            kernels |= {f"{area}.{program}.{kernel}": stages for kernel, stages in recorded.items()}
    return dict(sorted(kernels.items()))


def read_digests() -> Kernels:
    """The digests in the repository; `-` stands for a stage that a kernel does not have."""
    lines = [line.split() for line in DIGESTS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: {stage: digest for stage, digest in zip(STAGES, digests, strict=True) if digest != "-"} for name, *digests in lines}


def write_digests(digests: Kernels) -> None:
    lines = [f"# Digests of the IR of each kernel of the corpus: {', '.join(STAGES)}. `./dev corpus --accept` writes this file."]
    lines += [f"{name} {' '.join(stages.get(stage, '-') for stage in STAGES)}" for name, stages in digests.items()]
    DIGESTS.write_text("\n".join(lines) + "\n")


def write_texts(kernels: Kernels, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, stages in kernels.items():
        for stage, text in stages.items():
            (folder / f"{name}.{stage}.mlir").write_text(text)


def find_old_text(name: str, stage: str, digest: str | None, folder: Path | None) -> str | None:
    """The earlier IR: from the given folder, or from out/corpus/ if it has the recorded digest."""
    path = (folder or KEPT) / f"{name}.{stage}.mlir"
    text = path.read_text() if path.exists() else None
    return text if folder or (text is not None and compute_digest(text) == digest) else None


def show_difference(name: str, stage: str, old: str | None, new: str, most: int | None) -> None:
    if old is None:
        print(f"  {stage}: no earlier IR here; `./dev corpus --against <revision>` builds it")
        return
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), f"before/{name}.{stage}", f"now/{name}.{stage}", lineterm=""))
    print("\n".join(lines[:most]))
    if most and len(lines) > most:
        print(f"  … {len(lines) - most} more lines: ./dev corpus {name}")


def compare(kernels: Kernels, recorded: Kernels, folder: Path | None, chosen: list[str]) -> bool:
    """Prints what differs; returns whether everything is equal."""
    digests = {name: {stage: compute_digest(text) for stage, text in stages.items()} for name, stages in kernels.items()}
    if folder:
        before = {name: {stage: find_old_text(name, stage, None, folder) for stage in stages} for name, stages in kernels.items()}
        recorded = {name: {stage: compute_digest(text) for stage, text in stages.items() if text} for name, stages in before.items()}
    differ = {name: [s for s in STAGES if stages.get(s) != recorded[name].get(s)] for name, stages in digests.items() if recorded.get(name)}
    differ = {name: stages for name, stages in differ.items() if stages}
    added, removed = [name for name in digests if not recorded.get(name)], sorted(recorded.keys() - digests.keys())
    write_texts({name: stages for name, stages in kernels.items() if name not in differ and not folder}, KEPT)
    shown = [name for name in differ if any(word in name for word in chosen)] if chosen else list(differ)
    for name in shown:
        print(f"{name} differs: {', '.join(differ[name])}")
        # The lowered IR is made from the frontend's IR, so the first stage that differs shows the cause.
        stage = differ[name][0]
        if stage in kernels[name]:
            old = find_old_text(name, stage, recorded[name].get(stage), folder)
            show_difference(name, stage, old, kernels[name][stage], None if chosen or len(shown) == 1 else MOST_LINES)
    for name in added:
        print(f"{name} is new")
    for name in removed:
        print(f"{name} is gone")
    changed = len(differ) + len(added) + len(removed)
    print(f"corpus: {len(kernels)} kernels, {changed} changed")
    if changed and not folder:
        print("If the change is intended: ./dev corpus --accept, and give the reason in the commit message.")
    return not changed


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev corpus", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="print the whole diff of the kernels whose name contains one of these")
    parser.add_argument("--accept", action="store_true", help="write the digests of the IR as it is")
    parser.add_argument("--against", type=Path, metavar="REVISION", help="compare with the IR that --write wrote, or with a git revision")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the IR into this folder and compare nothing")
    chosen = parser.parse_args()
    if chosen.against and not chosen.against.is_dir():
        parser.error(f"there is no folder {chosen.against}")
    kernels = record_all()
    if chosen.write:
        write_texts(kernels, chosen.write)
        return 0
    if chosen.accept:
        write_digests({name: {stage: compute_digest(text) for stage, text in stages.items()} for name, stages in kernels.items()})
    return 0 if compare(kernels, read_digests(), chosen.against, chosen.names) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Lists the public names of the reference that are missing here: tools/compare_names.py path/to/reference/python

Public are the names without an underscore of its modules, but for what a module imports: modules, names of other packages, and names that
the package itself has; in `lang`, those that a module lists in `__all__`, or defines. `docs/guide/names.md` says why those in OBSOLETE are
missing. Fails if there are others.
"""

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import subprocess
import sys

OBSOLETE = {
    "profiler.kernel_metrics": "*", "profiler.kernel_profiler": "StatisticalResult default_cupti_metrics", "types.annotations": "T",
    "types.primitive_types": "integer_type_ids real_type_ids type_ids", "types.enums": "BoundaryMode to_boundary_enum",
    "types.compound_types": "CompoundType", "types.ndarray_type": "CompoundType Layout NdarrayTypeMetadata matrix to_boundary_enum vector",
    "math.mathimpl": "cfg", "tools.diagnose": "main", "linalg": "QuadrantsRuntimeError QuadrantsTypeError",
    # Internals of its frontend; `lang.ast` stands for all that is below it, too.
    "lang.ast": "*", "lang.common_ops": "*", "lang.expr": "*", "lang.func": "*", "lang.kernel_arguments": "*", "lang.shell": "*",
    "lang.kernel_checkpoint": "*", "lang.kernel": "ASTGenerator GraphDoWhileLevel LaunchContextBufferCache",
    "lang.matrix_ops": "*", "lang.matrix_ops_utils": "*",
    "lang.source_builder": "*", "lang.simt.tile_slicing": "*", "lang.simt.block": "arch_uses_spv",
    "lang.simt.grid": "arch_uses_spv", "lang.any_array": "AnyArrayAccess",
    "lang.util": "DataTypeCxxWrapper MAP_TYPE_IDS all_types get_clangpp get_traceback has_clangpp in_python_scope in_quadrants_scope "
    "is_data_oriented is_dataclass_instance is_from_quadrants_module is_matrix_class is_qd_template is_quadrants_class "
    "is_quadrants_internal_file python_scope quadrants_scope wants_runtime_primitives warning",
}  # fmt: skip


def list_names():
    """Returns the public names of each public module of the package that this interpreter has."""
    import quadrants as qd

    def is_own(module, name):
        value = getattr(module, name)
        if inspect.ismodule(value) or name.startswith("_") or name == "TYPE_CHECKING":
            return False
        if module is not qd and getattr(qd, name, getattr(qd.types, name, None)) is value:
            return False
        home = getattr(value, "__module__", None)  # modules of packages have their own names, packages those of their modules
        return home is None or (home == module.__name__ if module.__name__.count(".") > 1 else home.split(".")[0] == "quadrants")

    found = {}
    for each in [qd.__name__, *(one.name for one in pkgutil.walk_packages(qd.__path__, "quadrants.", onerror=lambda name: None))]:
        path = each.removeprefix("quadrants").removeprefix(".")
        if not any(part.startswith("_") for part in path.split(".")):
            module = importlib.import_module(each)
            found[path] = [name for name in dir(module) if is_own(module, name)]
            if path.split(".")[0] == "lang":
                defined = [name for name in found[path] if getattr(getattr(module, name), "__module__", each) == each]
                found[path] = getattr(module, "__all__", None) or defined
    return found


def find_missing(expected):
    """Returns the names of `expected` that this package lacks, as paths."""
    missing = []
    for path, names in expected.items():
        skipped = OBSOLETE.get("lang.ast" if path.startswith("lang.ast.") else path, "").split()
        try:
            module = importlib.import_module(f"quadrants.{path}".rstrip("."))
        except ImportError:
            module = None
        missing += [f"{path}.{name}" for name in names if not hasattr(module, name) and not {name, "*"} & {*skipped}]
    return missing


if __name__ == "__main__":
    if len(sys.argv) == 1:  # the reference runs this, too
        with contextlib.redirect_stdout(io.StringIO()):
            names = list_names()
        print(json.dumps(names))
    else:
        command = [sys.argv[1], "-E", __file__]  # -E: PYTHONPATH leads to this package
        names = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
        missing = find_missing(names)
        print(f"{sum(map(len, names.values()))} public names in {len(names)} modules, {len(missing)} missing", *missing, sep="\n")
        sys.exit(bool(missing))

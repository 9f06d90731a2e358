"""Makes modules under paths that programs for the reference import; here they have other paths or do not exist."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .._base.arch import Arch
from .._session.init import __version__

_PACKAGE = "quadrants"
# Contents of these modules: public names of the package, or paths below it; "alternative=own" if the names differ.
_CONTENTS = {
    "lang.ops": "_language.builtins.TABLE.* _library.math_functions.*",
    "lang.matrix": "Matrix Vector MatrixField MatrixNdarray VectorNdarray _values.types.MatrixType VectorType=_values.types.MatrixType",
    "lang.field": "BitpackedFields Field ScalarField",
    "lang.struct": "Struct StructField _values.struct.StructType dataclass",
    "lang.snode": "SNode activate append deactivate get_addr is_active length rescale_index",
    "lang.kernel_impl": "_language.kernel.Kernel data_oriented kernel func pyfunc real_func",
    "lang.stream": "Event Stream create_event create_stream stream_parallel",
    "lang._ndrange": "_language.ndrange.GroupedNDRange _language.ndrange._Ndrange ndrange",
    "lang._py_tensor": "interpreter.tensors.PyTensor interpreter.tensors.create_tensor",
    "lang.any_array": "AnyArray=_values.types.NdarrayType",
    "lang.graph_status": "GraphStatus",
    "lang.graph": "graph.do_while graph.parallel graph.parallel_context",
    "lang.graph_parallel": "graph_parallel graph_parallel_context",
    "lang.checkpoint": "checkpoint",
    "lang.intrinsics": "clock_counter clock_freq_hz",
    "lang.buffer_view": "BufferView types.BufferViewType",
    "lang.simt.reductions": "simt.subgroup.*",
    "lang.simt.sorting": "simt.subgroup.*",
    "types.buffer_view_type": "types.BufferViewType",
    "lang.kernel": "_language.kernel.Kernel _base.autodiff_mode.AutodiffMode",
    "lang.runtime_ops": "sync",
    "lang._metal_interop": "mps_sync_if_metal=_containers.device_arrays._finish_torch",
    "lang._ndarray": "Ndarray ScalarNdarray",
    "linalg.sparse_matrix": "linalg.SparseMatrix linalg.SparseMatrixBuilder",
    "linalg.sparse_solver": "linalg.SparseSolver",
    "linalg.sparse_cg": "linalg.SparseCG",
    "linalg.matrixfree_cg": "linalg.LinearOperator linalg.MatrixFreeBICGSTAB linalg.MatrixFreeCG",
    "math.mathimpl": "math.*",
    "math._complex": "math.cconj math.cdiv math.cexp math.cinv math.clog math.cmul math.cpow math.csqrt",
    "sparse._sparse_grid": "sparse.*",
    "profiler.kernel_metrics": "profiler.CuptiMetric profiler.get_predefined_cupti_metrics",
    "profiler.memory_profiler": "profiler.print_memory_profiler_info",
    "ad._ad": "ad.*",
    "types.ndarray_type": "types.NDArray NdarrayType=_values.types.NdarrayType types.ndarray",
    "types.compound_types": "types.matrix types.struct types.vector",
    "types.utils": "_base.dtypes.is_integral _base.dtypes.is_real _base.dtypes.is_signed types.is_tensor",
    "_funcs": "eig make_spd polar_decompose randn solve svd sym_eig",
    "_test_tools": "qd_init_same_arch=lang.former.init_same_arch",
    "_lib": "",
    "_lib.core": "Arch _base.dtypes.DataType _containers.axes.Axis DeviceCapability Extension=extension QuadrantsRuntimeError "
    "lang.misc.is_extension_supported set_logging_level logging_effective=is_logging_effective _base.logging.trace _base.logging.debug "
    "_base.logging.info _base.logging.warn _base.logging.error _base.logging.critical",
    "_tensor_wrapper": "MatrixTensor Tensor VectorTensor wrap",
    "_snode.fields_builder": "FieldsBuilder",
    "types.annotations": "Template template sparse_matrix_builder=types.sparse_matrix_builder",
    "tools.np2ply": "tools.PLYWriter",
    "tools.vtk": "tools.write_vtk",
}
_VALUES: dict[str, dict[str, Any]] = {
    "lang._fast_caching": {"FIELD_METADATA_CACHE_VALUE": "add_value_to_cache_key"},
    "_lib.core": {
        "data_type_size": lambda dtype: dtype.size,
        "get_max_num_indices": lambda: 12,
        "arch_name": lambda arch: arch.name,
        "arch_from_name": lambda name: Arch[name],
        "get_version_string": lambda: __version__,
    },
}
# Modules with former paths; pickles contain them. The others were directly in the package: `_dtypes` is `_base.dtypes`.
_ALIASES = {"lang.simt": "simt", "_compile": "_session.prepare", "_snode": "_containers.layout_tree", "_spellings": "_base.compat"}
_ALIASES["lang._perf_dispatch"] = "_session.perf_dispatch"  # programs replace variables of this module
_ALIASES["_factorizations".replace("iz", "is")] = "_library.factorizations"  # its British spelling
_FOLDERS = ("_base", "_values", "_containers", "_language", "_session", "_library")


def _find_alias(path: str) -> str | None:
    """Returns the path of the module that had this one, or None."""
    if path in _ALIASES or not re.fullmatch("_[a-z_]+", path):
        return _ALIASES.get(path)
    found = (f"{folder}.{path[1:]}" for folder in _FOLDERS)
    return next((name for name in found if importlib.util.find_spec(f"{_PACKAGE}.{name}")), None)


def _find(path: str) -> Any:
    """Returns the module, the object of a module, or the public name at a path below the package."""
    module, _, name = path.rpartition(".")
    if not module and importlib.util.find_spec(f"{_PACKAGE}.{name}"):
        return importlib.import_module(f"{_PACKAGE}.{name}")
    parent = importlib.import_module(f"{_PACKAGE}.{module}".rstrip("."))
    return getattr(parent, name, None) or importlib.import_module(f"{_PACKAGE}.{path}")


def _list(word: str) -> dict[str, Any]:
    further, _, own = word.rpartition("=")
    if own.endswith("*"):
        found = _find(own.rstrip(".*"))
        return dict(found) if isinstance(found, dict) else {name: getattr(found, name) for name in found.__all__}
    return {further or own.rpartition(".")[2]: _find(own)}


def list_modules(package: str) -> set[str]:
    """Returns the names of the modules directly below a package."""
    paths = (path.rpartition(".") for path in (*_CONTENTS, *_VALUES, *_ALIASES))
    return {name for folder, _, name in paths if folder == package}


def get_public(name: str) -> Any:
    """Returns a public name of the package, for modules that also have those. Raises `AttributeError` if there is none."""
    package: Any = importlib.import_module(_PACKAGE)
    found = None if name.startswith("_") else getattr(package, name, None)
    if found is None:
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}", name=name, obj=package)
    return found


class Finder:
    """The last finder in `sys.meta_path`: makes such a module when it is imported."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the spec of such a module, and None for any other name."""
        own = name.removeprefix(_PACKAGE + ".")
        if own in _CONTENTS or own in _VALUES:
            return ModuleSpec(name, cls, is_package=own == "_lib")  # type: ignore[arg-type]
        return ModuleSpec(name, cls, is_package=True) if _find_alias(own) else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Uses Python's default."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Fills the module, or replaces it by the module that it is an alias for."""
        own = module.__name__.removeprefix(_PACKAGE + ".")
        if own not in _CONTENTS and own not in _VALUES:
            real = sys.modules[module.__name__] = importlib.import_module(f"{_PACKAGE}.{_find_alias(own)}")
            for inner in pkgutil.iter_modules(getattr(real, "__path__", ())):  # otherwise they would be loaded a second time
                sys.modules[f"{module.__name__}.{inner.name}"] = importlib.import_module(f"{real.__name__}.{inner.name}")
            return
        vars(module).update(_VALUES.get(own, {}))
        for word in _CONTENTS.get(own, "").split():
            vars(module).update(_list(word))

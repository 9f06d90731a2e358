"""Modules under the paths that programs for the reference import, though they have other places here or none."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PACKAGE = "quadrants"
# What stands there, by the name that it has here; "further=own" where the names differ.
_CONTENTS = {
    "lang.ops": "_builtins.TABLE.* _math_functions.*",
    "lang.matrix": "_matrix.Matrix _matrix.Vector _field.MatrixField _ndarray.MatrixNdarray _ndarray.VectorNdarray _types.MatrixType "
    "VectorType=_types.MatrixType",
    "lang.field": "_field.Field _field.ScalarField",
    "lang.struct": "_struct.Struct _struct.StructField _struct.StructType _struct.dataclass",
    "lang.snode": "_snode.SNode _indices.get_addr _indices.rescale_index",
    "lang.kernel_impl": "_kernel.Kernel _kernel.data_oriented _kernel.kernel _func.func _func.pyfunc _func.real_func",
    "lang.stream": "_streams.Event _streams.Stream _streams.create_event _streams.create_stream stream_parallel",
    "lang._ndrange": "_ndrange.GroupedNDRange _ndrange._Ndrange ndrange",
    "lang._perf_dispatch": "_perf_dispatch.DispatchImpl _perf_dispatch.PerformanceDispatcher _perf_dispatch.perf_dispatch "
    "_perf_dispatch._parse_force_map",
    "lang._py_tensor": "PyTensor=_tensor.Tensor create_tensor=_tensor.tensor",
    "lang.any_array": "AnyArray=_types.NdarrayType",
    "_lib": "",
    "_lib.core": "_arch.Arch _dtypes.DataType _snode.Axis types.enums.DeviceCapability Extension=_init.extension",
    "_tensor_wrapper": "_tensor.MatrixTensor _tensor.Tensor _tensor.VectorTensor _tensor.wrap",
    "_snode.fields_builder": "_snode.FieldsBuilder",
    "types.annotations": "_types.Template _types.template",
    "tools.np2ply": "tools.PLYWriter",
    "tools.vtk": "tools.write_vtk",
}
_VALUES: dict[str, dict[str, Any]] = {
    "lang._fast_caching": {"FIELD_METADATA_CACHE_VALUE": "add_value_to_cache_key"},
    "_lib.core": {"data_type_size": lambda dtype: dtype.size, "get_max_num_indices": lambda: 12},
}
_ALIASES = {"lang.simt": "simt"}


def _find(path: str) -> Any:
    """The module, the object of a module, or the public name at a path below the package."""
    module, _, name = path.rpartition(".")
    if not module and importlib.util.find_spec(f"{_PACKAGE}.{name}"):
        return importlib.import_module(f"{_PACKAGE}.{name}")
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}".rstrip(".")), name)


def _list(word: str) -> dict[str, Any]:
    further, _, own = word.rpartition("=")
    if own.endswith("*"):
        found = _find(own.rstrip(".*"))
        return dict(found) if isinstance(found, dict) else {name: getattr(found, name) for name in found.__all__}
    return {further or own.rpartition(".")[2]: _find(own)}


class Finder:
    """Comes last in `sys.meta_path`: makes such a module when it is imported."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module of this name, None for any other."""
        own = name.removeprefix(_PACKAGE + ".")
        if own in _CONTENTS or own in _VALUES or own in _ALIASES:
            return ModuleSpec(name, cls, is_package=own == "_lib" or own in _ALIASES)  # type: ignore[arg-type]
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Leaves that to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Fills the module, or puts the one that it stands for in its place."""
        own = module.__name__.removeprefix(_PACKAGE + ".")
        if own in _ALIASES:
            real = sys.modules[module.__name__] = importlib.import_module(f"{_PACKAGE}.{_ALIASES[own]}")
            for inner in pkgutil.iter_modules(real.__path__):  # or they would be loaded a second time
                sys.modules[f"{module.__name__}.{inner.name}"] = importlib.import_module(f"{real.__name__}.{inner.name}")
            return
        vars(module).update(_VALUES.get(own, {}))
        for word in _CONTENTS.get(own, "").split():
            vars(module).update(_list(word))

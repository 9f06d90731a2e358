"""Makes modules under paths that programs for the reference import; here they have other paths or do not exist."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PACKAGE = "quadrants"
# Contents of these modules, by their names here; "alternative=own" if the names differ.
_CONTENTS = {
    "lang.ops": "_language.builtins.TABLE.* _library.math_functions.*",
    "lang.matrix": "_values.matrix.Matrix _values.matrix.Vector _containers.field.MatrixField "
    "_containers.ndarray.MatrixNdarray _containers.ndarray.VectorNdarray _values.types.MatrixType "
    "VectorType=_values.types.MatrixType",
    "lang.field": "_containers.field.Field _containers.field.ScalarField",
    "lang.struct": "_values.struct.Struct _values.struct.StructField _values.struct.StructType _values.struct.dataclass",
    "lang.snode": "_containers.layout_tree.SNode _language.indices.get_addr _language.indices.rescale_index",
    "lang.kernel_impl": "_language.kernel.Kernel _language.kernel.data_oriented _language.kernel.kernel "
    "_language.func.func _language.func.pyfunc _language.func.real_func",
    "lang.stream": "_session.streams.Event _session.streams.Stream "
    "_session.streams.create_event _session.streams.create_stream stream_parallel",
    "lang._ndrange": "_language.ndrange.GroupedNDRange _language.ndrange._Ndrange ndrange",
    "lang._perf_dispatch": "_session.perf_dispatch.DispatchImpl _session.perf_dispatch.PerformanceDispatcher "
    "_session.perf_dispatch.perf_dispatch "
    "_session.perf_dispatch._parse_force_map",
    "lang._py_tensor": "PyTensor=_containers.tensor.Tensor create_tensor=_containers.tensor.tensor",
    "lang.any_array": "AnyArray=_values.types.NdarrayType",
    "_lib": "",
    "_lib.core": "_base.arch.Arch _base.dtypes.DataType "
    "_containers.layout_tree.Axis types.enums.DeviceCapability Extension=_session.init.extension",
    "_tensor_wrapper": "_containers.tensor.MatrixTensor _containers.tensor.Tensor _containers.tensor.VectorTensor _containers.tensor.wrap",
    "_snode.fields_builder": "_containers.layout_tree.FieldsBuilder",
    "types.annotations": "_values.types.Template _values.types.template",
    "tools.np2ply": "tools.PLYWriter",
    "tools.vtk": "tools.write_vtk",
}
_VALUES: dict[str, dict[str, Any]] = {
    "lang._fast_caching": {"FIELD_METADATA_CACHE_VALUE": "add_value_to_cache_key"},
    "_lib.core": {"data_type_size": lambda dtype: dtype.size, "get_max_num_indices": lambda: 12},
}
# Modules with former paths: pickles contain them.
_ALIASES = {"lang.simt": "simt"} | {
    "_arch": "_base.arch",
    "_buffer_view": "_containers.buffer_view",
    "_builtins": "_language.builtins",
    "_compile": "_session.prepare",
    "_container": "_containers.container",
    "_coverage": "_session.coverage",
    "_device_arrays": "_containers.device_arrays",
    "_disk_cache": "_session.disk_cache",
    "_dtypes": "_base.dtypes",
    "_eigenvalues": "_library.eigenvalues",
    "_error_codes": "_base.error_codes",
    "_errors": "_base.errors",
    "_factorizations": "_library.factorizations",
    "_field": "_containers.field",
    "_fold_operators": "_language.fold_operators",
    "_foreign": "_containers.foreign",
    "_format": "_base.format",
    "_func": "_language.func",
    "_imports": "_base.imports",
    "_indices": "_language.indices",
    "_init": "_session.init",
    "_interop": "_containers.interop",
    "_kernel": "_language.kernel",
    "_linalg_basics": "_library.linalg_basics",
    "_logging": "_base.logging",
    "_match": "_base.match",
    "_math_functions": "_library.math_functions",
    "_matrix": "_values.matrix",
    "_namespaces": "_base.namespaces",
    "_ndarray": "_containers.ndarray",
    "_ndrange": "_language.ndrange",
    "_operands": "_language.operands",
    "_operators": "_base.operators",
    "_options": "_base.options",
    "_parameters": "_language.parameters",
    "_perf_dispatch": "_session.perf_dispatch",
    "_program": "_session.program",
    "_reports": "_session.reports",
    "_snode": "_containers.layout_tree",
    "_source": "_base.source",
    "_spellings": "_base.spellings",
    "_streams": "_session.streams",
    "_struct": "_values.struct",
    "_tensor": "_containers.tensor",
    "_typed_text": "_base.typed_text",
    "_types": "_values.types",
}


def _find(path: str) -> Any:
    """Returns the module, the object of a module, or the public name at a path below the package."""
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
    """The last finder in `sys.meta_path`: makes such a module when it is imported."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the spec of such a module, and None for any other name."""
        own = name.removeprefix(_PACKAGE + ".")
        if own in _CONTENTS or own in _VALUES or own in _ALIASES:
            return ModuleSpec(name, cls, is_package=own == "_lib" or own in _ALIASES)  # type: ignore[arg-type]
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Uses Python's default."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Fills the module, or replaces it by the module that it is an alias for."""
        own = module.__name__.removeprefix(_PACKAGE + ".")
        if own in _ALIASES:
            real = sys.modules[module.__name__] = importlib.import_module(f"{_PACKAGE}.{_ALIASES[own]}")
            for inner in pkgutil.iter_modules(getattr(real, "__path__", ())):  # otherwise they would be loaded a second time
                sys.modules[f"{module.__name__}.{inner.name}"] = importlib.import_module(f"{real.__name__}.{inner.name}")
            return
        vars(module).update(_VALUES.get(own, {}))
        for word in _CONTENTS.get(own, "").split():
            vars(module).update(_list(word))

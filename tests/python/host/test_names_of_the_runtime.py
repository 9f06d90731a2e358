"""The few objects behind the language that programs reach for: the runtime, helpers of types, log functions."""

import importlib.util
import inspect
import pkgutil
import subprocess
import sys
import traceback

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu)
    yield
    qd.reset()


def test_programs_extend_what_the_runtime_does(monkeypatch):
    cls, steps = qd.lang.impl.PyQuadrants, []

    def extend(name):
        original = getattr(cls, name)

        def step(self):
            original(self)
            self.prog.synchronize()
            steps.append(name)

        monkeypatch.setattr(cls, name, step)

    extend("materialize")
    extend("clear")
    x = qd.field(qd.f32)
    qd.root.dense(qd.i, 3).place(x)
    x[0] = 1
    assert steps == ["materialize"]
    qd.reset()
    assert steps == ["materialize", "clear"]


def test_the_runtime_tells_of_resets_and_knows_the_ndarrays():
    impl, calls = qd.lang.impl, []
    runtime = impl.get_runtime()
    array = qd.ndarray(qd.f32, 3)
    assert [one is array for one in runtime.ndarrays] == [True] and runtime.prog._get_num_ndarrays() == 1
    impl.on_reset(lambda: calls.append(1))
    qd.reset()
    qd.init(arch=qd.cpu)
    assert calls == [1] and runtime.ndarrays == [] and runtime.prog._get_num_ndarrays() == 0
    runtime.reset_hooks.pop()


def test_the_runtime_knows_the_default_types():
    assert qd.lang.impl.get_runtime().default_fp is qd.f32 and qd.lang.impl.get_runtime().default_ip is qd.i32
    assert qd.lang.impl.current_cfg().debug is False
    assert qd.lang.impl.get_max_shared_memory_bytes(is_lowerbound_ok=True) == (227 << 10 if qd.cfg.arch == "cuda" else 0)
    qd.init(default_fp=qd.f64)
    assert qd.lang.impl.get_runtime().default_fp is qd.f64


def test_data_types_of_other_packages():
    util = qd.lang.util
    assert util.to_numpy_type(qd.f32) is np.float32 and util.to_numpy_type(qd.u1) is np.bool_
    assert util.to_quadrants_type(np.int16) is qd.i16 and util.cook_dtype(float) is qd.f32
    torch = pytest.importorskip("torch")
    assert util.to_pytorch_type(qd.f16) is torch.float16 and util.to_pytorch_type(qd.u1) is torch.bool
    assert qd.f64 in qd.types.primitive_types.real_types and qd.u1 in qd.types.primitive_types.integer_types


def test_modules_can_be_marked():
    names = qd.lang._template_mapper.__builtins__
    names["__debug__"] = True
    assert names is qd.lang._template_mapper.__builtins__ and names["__debug__"] is True


def test_log_functions_are_looked_up_at_each_use(monkeypatch, capfd):
    lines = []
    monkeypatch.setattr(qd._logging, "warn", lines.append)
    monkeypatch.setenv("QD_NO_SUCH_OPTION", "1")
    qd.init()
    assert len(lines) == 1 and "QD_NO_SUCH_OPTION" in lines[0]
    qd._logging._get_logging(qd._logging.ERROR)("lost")
    assert "lost" in capfd.readouterr().err


PATHS = {
    "lang.simt": "block subgroup", "lang.simt.block": "sync", "lang.ops": "sin atomic_add select cbrt",
    "lang.field": "Field BitpackedFields",
    "lang.matrix": "Matrix Vector MatrixField VectorNdarray MatrixType", "lang.struct": "Struct StructField StructType dataclass",
    "lang.snode": "SNode get_addr append length is_active", "lang.misc": "init reset loop_config ijk x64 no_activate stop_grad",
    "lang.impl": "static grouped field ndarray root one zero axes static_assert deactivate_all_snodes", "lang": "graph_do_while misc",
    "lang.kernel_impl": "kernel func pyfunc real_func data_oriented", "lang.any_array": "AnyArray",
    "lang.stream": "Stream Event create_stream stream_parallel", "lang._fast_caching": "FIELD_METADATA_CACHE_VALUE",
    "lang._ndrange": "ndrange GroupedNDRange _Ndrange", "lang._perf_dispatch": "perf_dispatch _parse_force_map",
    "_session.perf_dispatch": "NUM_FIRST_WARMUP NUM_WARMUP NUM_ACTIVE DEFAULT_REPEAT_AFTER_COUNT DispatchImpl _FORCE_MAP",
    "lang._py_tensor": "PyTensor create_tensor", "_lib": "core", "_lib.core": "Arch DeviceCapability QuadrantsRuntimeError arch_name",
    "_tensor_wrapper": "Tensor wrap",
    "_snode.fields_builder": "FieldsBuilder", "types.annotations": "Template template sparse_matrix_builder",
    "types.primitive_types": "f32 all_types ref",
    "lang.graph": "do_while parallel parallel_context", "lang.graph_parallel": "graph_parallel graph_parallel_context",
    "lang.checkpoint": "checkpoint", "lang.intrinsics": "clock_counter clock_freq_hz", "lang.buffer_view": "BufferView BufferViewType",
    "lang.simt.reductions": "exclusive_add inclusive_max ballot", "lang.simt.sorting": "bitonic_sort_kv shuffle",
    "types.buffer_view_type": "BufferViewType",
    "tools.np2ply": "PLYWriter", "tools.vtk": "write_vtk", "lang.graph_status": "GraphStatus", "lang.kernel": "Kernel AutodiffMode",
    "lang._metal_interop": "mps_sync_if_metal",
    "lang.runtime_ops": "sync", "lang._ndarray": "Ndarray ScalarNdarray", "linalg.sparse_matrix": "SparseMatrix SparseMatrixBuilder",
    "linalg.sparse_solver": "SparseSolver", "linalg.sparse_cg": "SparseCG",
    "linalg.matrixfree_cg": "LinearOperator MatrixFreeCG MatrixFreeBICGSTAB", "math.mathimpl": "vec3 mix acos",
    "math._complex": "cmul cpow", "sparse._sparse_grid": "grid usage",
    "profiler.kernel_metrics": "CuptiMetric get_predefined_cupti_metrics", "profiler.memory_profiler": "print_memory_profiler_info",
    "ad._ad": "Tape FwdMode grad_for", "types.ndarray_type": "NDArray NdarrayType", "types.compound_types": "vector matrix struct",
    "types.utils": "is_integral is_real is_signed is_tensor", "_funcs": "svd sym_eig solve polar_decompose",
    "_test_tools": "qd_init_same_arch",
}  # fmt: skip


def test_programs_read_options_and_the_tape_from_the_runtime():
    runtime = qd.lang.impl.get_runtime()
    assert (runtime.unrolling_limit, runtime._arch, runtime.target_tape) == (32, qd.x64, None)
    assert (runtime.short_circuit_operators, runtime.print_full_traceback, runtime.default_up) == (True, False, qd.u32)
    runtime.set_default_fp(qd.f64)
    runtime.set_default_ip(qd.i64)
    assert (runtime.default_fp, runtime.default_up, qd.cfg.default_fp) == (qd.f64, qd.u64, qd.f64)

    @qd.kernel
    def compiled() -> float:
        return 0.5

    compiled()
    assert runtime.get_num_compiled_functions() == 1 and runtime.prog.get_total_compilation_time() > 0
    loss = qd.field(qd.f64, (), needs_grad=True)
    with qd.ad.Tape(loss) as tape:
        assert runtime.target_tape is tape
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        _ = runtime.unknown


def test_programs_replace_variables_of_the_dispatcher(monkeypatch, capsys):
    from quadrants.lang import _perf_dispatch

    monkeypatch.setattr(_perf_dispatch, "_FORCE_MAP", {"work": "second"})
    monkeypatch.setattr(_perf_dispatch, "_ANY_FORCE_ACTIVE", True)

    @qd.perf_dispatch(get_geometry_hash=lambda: 0)
    def work(): ...

    @work.register
    def first():
        return 1

    @work.register
    def second():
        return 2

    assert [work() for _ in range(3)] == [2, 2, 2] and "forced to 'second'" in capsys.readouterr().out


def test_native_functions_know_names_of_backends_and_levels():
    from quadrants._lib import core

    assert core.arch_from_name("cuda") is qd.cuda and core.arch_name(qd.vulkan) == "vulkan"
    assert core.get_version_string() == qd.__version__ and core.is_extension_supported(qd.x64, core.Extension.sparse)
    assert core.logging_effective("error") and issubclass(core.QuadrantsRuntimeError, RuntimeError)
    assert qd.lang.util.is_data_oriented(qd.data_oriented(type("Owner", (), {}))()) and not qd.lang.util.is_data_oriented(3)


def test_paths_are_imported_by_a_fresh_process():
    for path in PATHS:
        command = [sys.executable, "-c", f"import quadrants.{path}"]
        assert subprocess.run(command, capture_output=True, text=True).stderr == "", path


def test_modules_of_tools_are_its_attributes():
    assert qd.tools.np2ply.PLYWriter is qd.tools.PLYWriter and qd.tools.vtk.write_vtk is qd.tools.write_vtk
    assert "np2ply" not in dir(qd.tools)
    with pytest.raises(AttributeError, match="'quadrants.tools' has no attribute 'nothing'"):
        _ = qd.tools.nothing


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_programs_import(path):
    module = importlib.import_module(f"quadrants.{path}")
    for name in PATHS[path].split():
        found = importlib.import_module(f"quadrants.{path}.core") if name == "core" else getattr(module, name)
        assert path == "lang.simt.block" or found is getattr(qd, name, found)


# Pickles and programs of earlier versions name these modules.
FORMER_MODULES = """_arch _buffer_view _builtins _compile _container _coverage _device_arrays _disk_cache _dtypes _eigenvalues _error_codes
_errors _field _fold_operators _foreign _format _func _imports _indices _init _interop _kernel _linalg_basics _logging
_match _math_functions _matrix _ndarray _ndrange _operands _operators _options _parameters _perf_dispatch _program _reports _snode _source
_spellings _streams _struct _tensor _typed_text _types"""


@pytest.mark.parametrize("name", [*FORMER_MODULES.split(), "_factorizations".replace("iz", "is")])
def test_modules_are_found_under_their_former_names(name):
    module = importlib.import_module(f"quadrants.{name}")
    assert getattr(qd, name) is module
    assert module.__name__.startswith("quadrants._") and module is importlib.import_module(module.__name__)
    assert "." in module.__name__.removeprefix("quadrants.")  # a module of a package


def test_paths_lead_to_the_modules_that_there_are():
    import quadrants.lang.simt as simt
    import quadrants.lang.simt.block as block

    assert simt is qd.simt and block is qd.simt.block and qd.lang.cuda is qd.cuda
    with pytest.raises(ImportError, match="quadrants.lang.nothing"):
        importlib.import_module("quadrants.lang.nothing")
    assert importlib.import_module("quadrants.types").primitive_types.real_types


def test_attributes_of_kernels_that_programs_look_at():
    @qd.kernel
    def k(n: qd.i32) -> qd.i32:
        return n

    assert k._primal is k and k.wrapper is k and k.fn is k.__wrapped__ and k._is_wrapped_kernel
    runtime = qd.lang.impl.get_runtime()
    before = runtime.get_num_compiled_functions()
    k(1), k(2)
    assert runtime.get_num_compiled_functions() == before + 1
    qd.init(arch=qd.cpu)
    assert runtime.get_num_compiled_functions() == 0 and runtime.prog.config().arch == qd.cpu
    misc = qd.lang.misc
    assert misc.is_arch_supported(qd.cpu) and misc.is_arch_supported("X64") and not misc.is_arch_supported(qd.metal)
    assert not misc.is_arch_supported("nothing") and qd.lang.util.has_pytorch() == (importlib.util.find_spec("torch") is not None)


def test_what_the_runtime_counts():
    prog = qd.lang.impl.get_runtime().prog
    names = ("get_graph_cache_size", "get_graph_cache_used_on_last_call", "get_graph_num_nodes_on_last_call", "get_graph_total_builds")
    assert [getattr(prog, name)() for name in names] == [0, False, 0, 0]


def test_helpers_of_tests_start_the_same_processor():
    import quadrants._test_tools as tools

    tools.qd_init_same_arch(default_fp=qd.f64)
    assert qd.cfg.arch == qd.cpu and qd.cfg.default_fp == qd.f64
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="qd.init"):
        tools.qd_init_same_arch()


def test_names_that_are_not_needed_say_why():
    with pytest.raises(AttributeError, match="FwdMode.insert is not needed: the kernels"):
        qd.ad.FwdMode.insert  # noqa: B018
    with pytest.raises(AttributeError, match="FwdMode.recover_kernels is not needed"):
        qd.ad.FwdMode.recover_kernels  # noqa: B018


def test_arrays_get_another_order_of_axes():
    from quadrants._tensor import _with_layout

    array = qd.ndarray(qd.types.vector(2, qd.i32), (3, 4, 5))
    array.from_numpy(np.arange(120, dtype=np.int32).reshape(3, 4, 5, 2))
    turned = _with_layout(array, (2, 0, 1))
    assert turned.shape == (4, 5, 3) and turned[1, 2, 0].to_list() == array[0, 1, 2].to_list()
    turned[3, 4, 2] = [7, 8]
    assert array[2, 3, 4].to_list() == [7, 8]
    assert _with_layout(array, (0, 1, 2)) is array
    with pytest.raises(ValueError, match="no.*permutation|not a permutation"):
        _with_layout(array, (0, 0, 1))


def test_kernels_tell_what_the_disk_cache_did(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport quadrants as qd\n"
        "qd.init(arch=qd.cpu, offline_cache=sys.argv[2] == 'yes', offline_cache_file_path=sys.argv[1])\n"
        "@qd.kernel\ndef k() -> qd.i32:\n    return 3\n"
        "def show():\n    found = k._primal.src_ll_cache_observations\n"
        "    print(*(int(getattr(found, f'cache_{name}')) for name in ('key_generated', 'validated', 'loaded', 'stored')))\n"
        "show()\nk()\nshow()\n"
    )
    shown = []
    for uses in ("yes", "yes", "no"):
        command = [sys.executable, str(program), str(tmp_path / "cache"), uses]
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
        shown.append([line for line in lines if line[0] in "01"])
    assert shown == [["0 0 0 0", "1 0 0 1"], ["0 0 0 0", "1 1 1 0"], ["0 0 0 0", "0 0 0 0"]]


def test_classes_of_vectors_have_the_swizzles():
    assert hasattr(qd.Vector, "xy") and hasattr(qd.Matrix, "rgba") and not hasattr(qd.Vector, "rgx") and not hasattr(qd.Vector, "nothing")
    assert {"x", "xyzw", "stp"} <= {*dir(qd.Vector)}
    assert qd.Vector.zx.__get__(qd.Vector([1, 2, 3])).to_list() == [3, 1]


def test_public_namespaces_hold_what_is_public():
    for name in ("annotations", "Any", "importlib", "get_config", "TABLE"):
        assert not hasattr(qd, name) and not hasattr(qd.graph, name) and not hasattr(qd.lang.misc, name)
    assert qd.Format.rgba8.name == "rgba8" and qd.DeviceCapability.spirv_has_int64.name == "spirv_has_int64"


def test_misspelt_names_get_one_suggestion():
    for name, near in (("sinn", "sin"), ("kernal", "kernel"), ("ndaray", "ndarray"), ("Vecter", "Vector"), ("ui", "gui")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{near}'\\?$") as caught:
            getattr(qd, name)
        shown = "".join(traceback.format_exception_only(caught.value))
        assert shown.lower().count("did you mean") == 1
    with pytest.raises(AttributeError, match="no attribute 'u9'$") as caught:
        qd.u9  # noqa: B018
    assert "did you mean" not in "".join(traceback.format_exception_only(caught.value)).lower()


def test_signatures_of_what_the_compiler_knows():
    shown = {name: str(inspect.signature(getattr(qd, name))) for name in ("sin", "pow", "atan2", "floor", "max", "atomic_add", "select")}
    assert shown == {
        "sin": "(x)", "pow": "(base, exponent)", "atan2": "(x1, x2)", "floor": "(x, dtype=None)", "max": "(*args)",
        "atomic_add": "(x, y, *, order=None, scope=None)", "select": "(cond, x1, x2)",
    }  # fmt: skip

    @qd.kernel
    def k(n: qd.i32) -> qd.f32:
        qd.static_assert(cond=True, msg="never")
        return qd.select(cond=n > 0, x1=qd.pow(base=2.0, exponent=3.0), x2=qd.atan2(x1=0.0, x2=1.0)) + qd.floor(x=1.5)

    assert k(1) == 9 and qd.pow(base=2, exponent=3) == 8 and qd.select(cond=0, x1=1, x2=2) == 2
    with pytest.raises(TypeError):
        qd.pow(base=2)


def test_further_names_of_parameters():
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.dense(indices=qd.ij, dimensions=(4,)).place(x)
    qd.root.dense(qd.ij, 3).place(y)
    assert x.shape == (4, 4) and y.shape == (3, 3)
    with pytest.raises(TypeError, match="one parameter"):
        qd.root.dense(indices=qd.i, axes=qd.i, dimensions=2)
    for kind in ("pointer", "bitmasked"):
        z = qd.field(qd.f32)
        getattr(qd.root, kind)(indices=qd.i, dimensions=2).place(z)
        assert z.shape == (2,)
    z = qd.field(qd.f32)
    qd.root.dynamic(index=qd.i, dimension=2).place(z)
    assert z.shape == (2,)
    builder = qd.FieldsBuilder()
    for node in (qd.root, builder):
        z = qd.field(qd.types.quant.int(8))
        node.dense(indices=qd.i, dimensions=2).quant_array(indices=qd.j, dimensions=4, max_num_bits=32).place(z)
        assert z.shape == (2, 4)
    builder.finalize()
    z[1, 3] = 5
    assert z[1, 3] == 5
    t = qd.tensor(qd.f32, 3)
    t.fill(value=2)
    assert t[1] == 2
    counts = qd.field(qd.i32, 4)
    counts.fill(1)
    with pytest.warns(DeprecationWarning):
        qd.algorithms.PrefixSumExecutor(4).run(input_arr=counts)
    assert counts.to_numpy().tolist() == [1, 2, 3, 4] and qd.ScalarNdarray(qd.f32, arr_shape=(2,)).shape == (2,)
    f = qd.types.struct(a=qd.f32).field(shape=2)
    f.from_numpy(array_dict={"a": np.ones(2, np.float32)})
    assert f[1].a == 1 and qd.types.ref(tp=qd.i32).dtype is qd.i32
    struct = qd.Struct(a=1, b=qd.Vector([1, 2]))
    assert struct.to_dict(include_methods=True, include_ndim=True) == {
        "a": 1, "b": [1, 2], "__struct_methods": {}, "__matrix_ndim": {"b": 1},
    }  # fmt: skip
    m = qd.math
    assert (
        np.allclose(m.vdir(ang=0.0), [1, 0])
        and np.allclose(m.rotation2d(ang=0.0), np.eye(2))
        and m.inverse(mat=qd.Matrix([[2.0]]))[0, 0] == 0.5
    )
    assert m.cmul(z1=qd.Vector([0, 1]), z2=qd.Vector([0, 1]))[0] == -1 and m.cconj(z=qd.Vector([0, 1]))[1] == -1
    assert qd.Stream(handle=0, prog_ref=None).handle == 0 and qd.Event(handle=0, prog_ref=None).handle == 0


def test_perf_dispatchers_tell_their_schedule():
    @qd.perf_dispatch(get_geometry_hash=lambda n: 0, first_warmup=2, warmup=3, active=4, repeat_after_count=5, repeat_after_seconds=6.0)
    def d(n): ...

    assert (d.num_first_warmup, d.num_warmup, d.num_active, d.repeat_after_count, d.repeat_after_seconds) == (2, 3, 4, 5, 6.0)


def list_public_modules():
    for found in pkgutil.walk_packages(qd.__path__, "quadrants."):
        parts = found.name.split(".")
        if not any(part.startswith("_") for part in parts) and parts[1] not in ("interpreter", "pytest_plugin"):
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("module", list(list_public_modules()), ids=lambda module: module.__name__)
def test_modules_list_public_names_only(module):
    names = dir(module)
    assert names and set(module.__all__) <= set(names)
    for name in names:
        value = getattr(module, name)
        assert not inspect.ismodule(value) or value.__name__.startswith("quadrants.")
        assert getattr(value, "__module__", None) not in ("typing", "__future__", "collections.abc")

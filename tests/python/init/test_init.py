"""Starting the runtime: options, environment, processors, versions."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def no_runtime(monkeypatch):
    for name in list(os.environ):
        if name.startswith("QD_") and name != "QD_VENV":
            monkeypatch.delenv(name)
    yield
    qd.reset()


def test_defaults():
    qd.init()
    assert (qd.cfg.default_fp, qd.cfg.default_ip, qd.cfg.debug, qd.cfg.random_seed) == (qd.f32, qd.i32, False, 0)


def test_config_is_none_without_a_runtime():
    qd.init()
    qd.reset()
    assert qd.cfg is None


def test_defaults_decide_what_python_types_mean():
    qd.init(default_fp=qd.f64, default_ip=qd.i64)
    assert qd.field(float, shape=1).dtype is qd.f64 and qd.types.vector(2, int).dtype is qd.i64 and qd.math.uvec2.dtype is qd.u64


def test_unknown_keywords_are_refused_with_a_suggestion():
    with pytest.raises(KeyError, match=r"Unrecognized keyword argument\(s\) for qd.init: foo, offline_cach.*offline_cache"):
        qd.init(foo=1, offline_cach=True)


def test_default_up_is_refused():
    with pytest.raises(KeyError, match="always follows 'default_ip'"):
        qd.init(default_up=qd.u32)


@pytest.mark.parametrize("options", [{"debug": "yes"}, {"opt_level": 1.5}, {"random_seed": True}])
def test_wrong_types_are_refused(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        qd.init(**options)


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="never, version, lru, fifo"):
        qd.init(offline_cache_cleaning_policy="bogus")
    with pytest.raises(AssertionError, match="default_fp"):
        qd.init(default_fp=qd.i32)
    for given in (qd.f64, "f64", np.float64):
        qd.init(default_fp=given)
        assert qd.cfg.default_fp is qd.f64
    with pytest.raises(AssertionError, match="default_fp must be one of f16, f32, f64, got 'real'"):
        qd.init(default_fp="real")


def test_the_environment_gives_options_and_keywords_win(monkeypatch, capfd):
    monkeypatch.setenv("QD_DEBUG", "1")
    monkeypatch.setenv("QD_DEFAULT_FP", "64")
    monkeypatch.setenv("QD_RANDOM_SEED", "7")
    qd.init(random_seed=8)
    assert qd.cfg.debug and qd.cfg.check_out_of_bound and qd.cfg.default_fp is qd.f64 and qd.cfg.random_seed == 8
    assert "QD_RANDOM_SEED=7" in capfd.readouterr().err


def test_the_number_of_threads_has_a_short_variable(monkeypatch):
    monkeypatch.setenv("QD_NUM_THREADS", "3")
    qd.init()
    assert qd.cfg.cpu_max_num_threads == 3


def test_edited_stages_need_the_caches_off(monkeypatch):
    monkeypatch.setenv("QD_LOAD_IR", "1")
    monkeypatch.setenv("QUADRANTS_LOAD_PTX", "1")  # which the CPU has none of
    with pytest.raises(ValueError, match="Caching must be disabled with QD_LOAD_IR: "):
        qd.init()
    with pytest.raises(ValueError, match="Caching must be disabled with QD_LOAD_IR: "):
        qd.init(offline_cache=False)  # src_ll_cache is on
    qd.init(offline_cache=False, src_ll_cache=False, debug_dump_path="/there")
    assert qd._base.options.get("replay") == "/there/{kernel}/3_llvm.ll"
    values = {**qd._base.options.current, "arch": "cuda", "offline_cache": True}
    with pytest.raises(ValueError, match="with QD_LOAD_IR and QUADRANTS_LOAD_PTX: "):
        qd._base.options.apply_dump_variables(values)
    qd.init(arch=qd.python)


def test_bad_environment_is_refused(monkeypatch):
    monkeypatch.setenv("QD_DEFAULT_IP", "16")
    with pytest.raises(ValueError, match="Invalid QD_DEFAULT_IP=16, should be 32 or 64"):
        qd.init()


def test_meaningless_variables_are_named(monkeypatch, capfd):
    monkeypatch.setenv("QD_DEBGU", "1")
    qd.init()
    assert "QD_DEBGU" in capfd.readouterr().err


def test_variables_that_the_guide_calls_ineffective_are_no_options():
    page = (ROOT / "docs/guide/runtime.md").read_text()
    (sentence,) = re.findall(r"Accepted\s+without an effect: ([^.]*)\.", page)
    names = re.findall(r"QD_(\w+)", sentence)
    qd.init()
    assert len(names) > 5 and not [name for name in names if hasattr(qd.cfg, name.lower())]
    assert hasattr(qd.cfg, "enable_metal")


@pytest.mark.parametrize("arch", [None, qd.cpu, "cpu", "X64", [qd.cuda, qd.cpu]])
def test_processors_that_are_there(arch):
    qd.init(arch=arch)
    assert qd.cfg.arch is qd.cpu and qd.cfg.arch == qd.cpu.name


def test_missing_processors_fall_back_or_not(capfd):
    qd.init(log_level="error")
    qd.init(arch=qd.metal)  # whose own log level counts
    assert "Arch=[Arch.metal] is not supported, falling back to CPU" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match=r"Arch=\[Arch.metal\] is not supported"):
        qd.init(arch=qd.metal, enable_fallback=False)
    with pytest.raises(ValueError, match="unknown arch 'gpx'"):
        qd.init(arch="gpx")


def test_processor_of_the_environment_wins(monkeypatch):
    monkeypatch.setenv("QD_ARCH", "cpu")
    qd.init(arch=qd.python)
    assert qd.cfg.arch == qd.cpu.name


@pytest.mark.parametrize("version", ["1.0", "1.4.0", "1.3.3"])
def test_versions_that_fit(version):
    qd.reset()
    qd.init(require_version=version)
    assert qd.field(qd.i32, shape=1)[0] == 0  # the runtime has started


@pytest.mark.parametrize("version, text", [("2.0", "version mismatch"), ("1.99", "version mismatch"), ("abc", "PEP 440")])
def test_versions_that_do_not_fit(version, text):
    with pytest.raises(Exception, match=text):
        qd.init(require_version=version)


def test_options_may_be_written_later():
    qd.init()
    qd.cfg.debug = True
    assert qd.cfg.debug
    with pytest.raises(TypeError):
        qd.cfg.debug = "yes"
    with pytest.raises(AttributeError):
        qd.cfg.nonsense = 1


def test_kernels_not_declared_pure_are_named(capsys):
    @qd.kernel
    def plain():
        pass

    @qd.kernel(fastcache=True)
    def declared():
        pass

    with pytest.warns(DeprecationWarning):

        @qd.pure
        @qd.kernel
        def formerly_declared():
            pass

    qd.init(print_non_pure=True, offline_cache=False)
    plain()
    declared()
    formerly_declared()
    text = capsys.readouterr().out
    assert text.count("[NOT_PURE]") == 1 and text.rstrip().endswith(".plain")


def test_test_mode_only_parses():
    options = qd.init(_test_mode=True, unrolling_limit=5)
    assert options.unrolling_limit == 5 and qd.cfg is None


def test_reset_is_idempotent_and_cycles_are_flat():
    from quadrants import _runtime

    before = _runtime.memory_use()
    for _ in range(200):
        qd.init()
        qd.field(qd.f32, shape=1000).fill(1)
        qd.reset()
        qd.reset()
    assert _runtime.memory_use() == before


def test_help_lists_every_option():
    assert all(name in qd.init.__doc__ for name in ("random_seed", "offline_cache_file_path", "unrolling_limit"))


def test_unknown_names_of_the_package_suggest_close_ones():
    with pytest.raises(AttributeError, match="did you mean 'ndarray'"):
        _ = qd.ndaray


def test_public_names_exist():
    for name in qd.__all__:
        assert getattr(qd, name) is not None or name == "cfg"


def test_import_loads_little_and_no_compiler():
    code = """
import sys, numpy
before = set(sys.modules)
import quadrants
print(*sorted(set(sys.modules) - before))
"""
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    late = {"quadrants._compiler", "quadrants.interpreter", "quadrants._base.error_codes", "quadrants._base.format", "torch", "inspect"}
    assert "quadrants._runtime" in loaded and not {*late, "fractions", "decimal"} & set(loaded)
    assert len(loaded) < 55


def test_the_processor_of_the_options_compares_with_members_and_names():
    qd.init(arch=qd.cpu)
    for arch in (qd.cfg.arch, qd.lang.impl.current_cfg().arch, qd.lang.impl.get_runtime().prog.config().arch):
        assert arch == qd.cpu and arch in (qd.cuda, qd.cpu) and arch not in (qd.cuda, qd.metal) and arch.name == qd.cpu.name
        assert arch == qd.cpu.name and arch == "cpu" and arch != "cuda" and arch in ("cpu", "cuda")
    assert {qd.cpu: 1}[qd.cfg.arch] == 1 and str(qd.cfg.arch) == f"Arch.{qd.cpu.name}"


def accepted():
    return [name for name, (*_, key, _) in qd._base.options._ROWS.items() if key == "accepted"]


def test_accepted_options_come_last_in_the_help_and_split_no_cache(tmp_path):
    described, _, last = qd.init.__doc__.partition("Accepted for programs that set them, and without effect:\n")
    names = [line.split()[0] for line in last.splitlines() if line.strip()]
    assert names == accepted() and "timeline" in names and not any(f"    {name} (" in described for name in names)

    def count_compiled(**options):
        qd.init(offline_cache_file_path=str(tmp_path), **options)
        kernel = qd.kernel_from_source("def k(n: qd.i32) -> qd.i32:\n    return n + 1\n")
        before = qd.cache_info().compiled
        assert kernel(1) == 2
        return qd.cache_info().compiled - before

    others = {name: not value for name in accepted() if isinstance(value := qd._base.options._ROWS[name][1], bool)}
    others |= {name: value + 1 for name in accepted() if type(value := qd._base.options._ROWS[name][1]) is int}
    others |= {"vk_api_version": "1.2", "sparse_import": "all"}
    assert count_compiled() == 1 and count_compiled(**others) == 0


def test_the_product_reads_every_option_but_those_that_are_accepted():
    files = [path for folder in ("src", "python") for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h", ".py")]
    text = "\n".join(path.read_text() for path in files)
    parameters = inspect.signature(qd.init).parameters
    read = {name for name in qd._base.options._ROWS if re.search(rf"Option::{name}\b|[\"']{name}[\"']", text) or name in parameters}
    assert read == set(qd._base.options._ROWS) - set(accepted())


def test_device_index_is_device_id():
    qd.init(device_index=3)
    assert qd.cfg.device_id == 3 and qd.cfg.device_index == 3
    with pytest.raises(KeyError, match="are one option"):
        qd.init(device_index=1, device_id=1)


@pytest.mark.parametrize("name", ["sin", "tanh", "floor", "round"])
@pytest.mark.parametrize("arch", [qd.cpu, qd.python])
def test_strict_math_types_refuse_integers(arch, name):
    def call():
        return qd.kernel_from_source(f"def k(n: qd.i32) -> qd.f32:\n    return qd.{name}(n) + qd.sqrt(n) + qd.exp(n)\n")(1)

    qd.init(arch=arch)
    call()
    qd.init(arch=arch, strict_math_types=True)
    with pytest.raises(qd.QuadrantsTypeError, match=f"'{name}' takes real inputs only, however 'i32' is provided"):
        call()
    qd.init()


def test_a_logger_of_python_receives_log_lines(capfd):
    import logging

    class Kept(logging.Handler):
        def emit(self, record):
            kept.append((record.levelno, record.getMessage()))

    kept, handler, logger = [], Kept(), logging.getLogger("quadrants")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        qd.init(arch=qd.metal, offline_cache=False)
        assert [(level, "falling back to CPU" in text) for level, text in kept] == [(30, True)]
        assert "falling back" not in capfd.readouterr().err
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    qd.init(arch=qd.metal, offline_cache=False)
    assert "falling back to CPU" in capfd.readouterr().err


def test_log_lines_of_what_the_runtime_decides(monkeypatch, capfd, tmp_path):
    monkeypatch.setenv("QD_LOG_LEVEL", "debug")
    text = "def k(n: qd.template()) -> qd.i32:\n    return n + 1\n"
    qd.init(offline_cache_file_path=str(tmp_path), cpu_max_num_threads=2)
    kernel = qd.kernel_from_source(text)
    kernel(1), kernel(1), kernel(2)
    qd.reset()
    lines = capfd.readouterr().err.splitlines()
    told = "\n".join(line.partition("] ")[2] for line in lines)
    assert re.search(rf"^runtime: {qd.cpu.name} with 2 threads; disk cache {tmp_path}; options .*cpu_max_num_threads=2", told, re.MULTILINE)
    assert re.search(r"^kernel k \(.*\): \d+\.\d ms, compiled \(nothing is on disk under its key\).*; version 1$", told, re.MULTILINE)
    assert re.search(r"^kernel k \(.*\): .* compiled .*; version 2; argument n: 1 → 2$", told, re.MULTILINE)
    assert told.count("cache: kernel k is stored") == 2 and told.count("kernel k (") == 2 and "runtime: ends" in told
    qd.init(offline_cache_file_path=str(tmp_path))
    qd.kernel_from_source(text)(1)
    monkeypatch.delenv("QD_LOG_LEVEL")
    qd.init()
    assert re.search(r"kernel k \(.*\): .* from disk", capfd.readouterr().err)
    qd.kernel_from_source(text)(1)
    assert capfd.readouterr().err == ""


def test_extensions_are_those_of_the_runtime():
    qd.init()
    assert qd.is_extension_enabled(qd.extension.adstack) and not qd.is_extension_enabled(qd.extension.mesh)
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"qd.init\(\)"):
        qd.is_extension_enabled(qd.extension.sparse)
    assert qd.lang.misc.is_extension_supported(qd.x64, qd.extension.adstack)


def test_a_command_lists_the_variables_with_their_values(monkeypatch, capsys):
    monkeypatch.setenv("QD_DEBUG", "1")
    monkeypatch.setenv("QD_PERFDISPATCH_FORCE", "a:b")
    monkeypatch.setattr("sys.argv", ["quadrants", "env"])
    importlib.import_module("quadrants.__main__").main()
    lines = capsys.readouterr().out.splitlines()
    assert {"QD_DEBUG=1", "QD_PERFDISPATCH_FORCE=a:b", "QD_OPT_LEVEL=1", "QD_DEFAULT_FP=f32", "QD_DUMP_IR="} <= set(lines)
    assert lines == sorted(lines) and "QD_REQUIRE_VERSION" not in str(lines)


def test_log_lines_take_values(capfd):
    qd._logging.warn("{} of {}", 3, "four")
    qd._logging.warn("{as it is}")
    assert [line.rpartition("] ")[2] for line in capfd.readouterr().err.splitlines()] == ["3 of four", "{as it is}"]


def test_options_that_show_what_is_compiled(monkeypatch, capfd):
    monkeypatch.setenv("QD_SHOW_COMPILING", "1")
    qd.init(offline_cache=False)
    kernel = qd.kernel_from_source("def shown() -> qd.i32:\n    return 41 + 1\n")
    kernel(), kernel()
    assert capfd.readouterr().err.count("compiling kernel shown (") == 1
    monkeypatch.delenv("QD_SHOW_COMPILING")
    with pytest.warns(UserWarning, match=r"\[warning_code=DUMP_IR_CACHE_MISMATCH\]"):
        qd.init(print_ir=True)
    qd.kernel_from_source("def shown() -> qd.i32:\n    return 41 + 1\n")()
    out, err = capfd.readouterr()
    assert "qd.kernel @shown" in out and "compiling" not in err
    qd.init()

"""Options: their values come from the entries of ``options.def``, the environment, and the keywords of `qd.init`."""

from __future__ import annotations

import os
from typing import Any

from .. import _runtime
from . import compat as _compat
from .arch import Arch
from .errors import QuadrantsRuntimeError, add_help, warn

_ROWS: dict[str, tuple[str, Any, str, str, str]] = {name: tuple(row) for name, *row in _runtime.option_table()}  # type: ignore[misc]
_DATA_TYPES = {
    "default_fp": (_runtime.f32, (_runtime.f16, _runtime.f32, _runtime.f64)),
    "default_ip": (_runtime.i32, (_runtime.i32, _runtime.i64)),
}

_DEFAULTS: dict[str, Any] = {name: _DATA_TYPES[name][0] if name in _DATA_TYPES else row[1] for name, row in _ROWS.items()}

current: dict[str, Any] | None = None  # values of all options, or None without a runtime; set by `qd.init` and `qd.reset`


def get(name: str) -> Any:
    """Returns the value of an option, or None if there is no runtime."""
    return None if current is None else current.get(name)


def check_runtime() -> None:
    """Raises if there is no runtime."""
    if current is None:
        raise add_help(QuadrantsRuntimeError("there is no runtime. Maybe you forgot to call `qd.init()` first?"))


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Returns option values in the form of the C++ side: data types by name."""
    return {name: value.name if isinstance(value, _runtime.DataType) else value for name, value in values.items()}


def collect(keywords: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns all option values, checked, and a list of warnings. Keywords override the environment, which overrides the defaults."""
    for name in _compat.OPTIONS.keys() & keywords.keys():
        if _compat.OPTIONS[name] in keywords:
            raise KeyError(f"{name} and {_compat.OPTIONS[name]} are one option of qd.init: give one of them")
        keywords[_compat.OPTIONS[name]] = keywords.pop(name)
    unknown = [name for name in keywords if name not in _ROWS]
    if unknown:
        import difflib  # imported only after a mistake

        near = [f"{name} -> {close[0]}" for name in unknown if (close := difflib.get_close_matches(name, _ROWS, 1))]
        hint = f" (did you mean: {', '.join(near)}?)" if near else ""
        raise KeyError(f"Unrecognized keyword argument(s) for qd.init: {', '.join(unknown)}{hint}")
    if "default_up" in keywords:
        raise KeyError("'default_up' always follows 'default_ip' and cannot be set: set default_ip instead")
    values = dict(_DEFAULTS)
    warnings = []
    variables = {name for name in os.environ if name.startswith("QD_")}
    for name, (_, default, _, _, scope) in _ROWS.items() if variables else ():
        variable = "QD_" + name.upper()
        variable = variable if variable in variables else _compat.VARIABLES.get(name, variable)
        text = os.environ.get(variable, "") if scope != "keyword_only" and name not in ("arch", "default_up") else ""
        if text:
            values[name] = check(name, _parse(name, default, variable, text))
            if name in keywords:
                warnings.append(f"{variable}={text} is ignored: qd.init was called with {name}={keywords[name]!r}")
    if unknown := sorted(variables - _compat.OTHER_VARIABLES - {"QD_" + name.upper() for name in _ROWS if variables}):
        warnings.append(f"environment variables that mean nothing to Quadrants: {', '.join(unknown)}")  # most are spelling mistakes
    values.update((name, check(name, value)) for name, value in keywords.items())
    values["default_up"] = _runtime.u64 if values["default_ip"] is _runtime.i64 else _runtime.u32
    if values["debug"]:
        values["check_out_of_bound"] = True
    return values, warnings


def apply_dump_variables(values: dict[str, Any]) -> None:
    """Sets `dump` and `replay` from the environment variables that dump stages into `debug_dump_path` and replace stages from there."""
    folder, is_cached = values["debug_dump_path"], values["offline_cache"]
    dumps = any(os.environ.get(name, "0") not in ("", "0") for name in ("QD_DUMP_IR", "QD_DUMP_SIMPLIFY", "QD_DUMP_CFG", "QD_DUMP_AST"))
    values["dump"] = values["dump"] or (folder if dumps else "")
    if is_cached and (dumps or values["print_ir"]):
        text = "[warning_code=DUMP_IR_CACHE_MISMATCH] kernels whose IR is printed are compiled anew in spite of the disk cache: "
        warn(text + "qd.init(offline_cache=False)", UserWarning)
    stages = {"QD_LOAD_IR": "3_llvm.ll"} | ({"QUADRANTS_LOAD_PTX": "4_asm.s"} if values["arch"] == "cuda" else {})
    wanted = [name for name in stages if os.environ.get(name, "0") not in ("", "0") and values["arch"] != "python"]
    if wanted and (is_cached or values["src_ll_cache"]):
        raise ValueError(f"Caching must be disabled with {' and '.join(wanted)}: qd.init(offline_cache=False, src_ll_cache=False)")
    for name in wanted:
        values["replay"] = os.path.join(folder, "{kernel}", stages[name])


def _parse(name: str, default: Any, variable: str, text: str) -> Any:
    if name in _DATA_TYPES:
        if text not in ("32", "64"):
            raise ValueError(f"Invalid {variable}={text}, should be 32 or 64")
        return getattr(_runtime, name[-2] + text)
    try:
        return bool(int(text)) if isinstance(default, bool) else type(default)(text)
    except ValueError as error:
        raise ValueError(f"Invalid {variable}={text}: a value of type {type(default).__name__} is expected") from error


def check(name: str, value: Any) -> Any:
    """Returns the value in its stored form; raises `TypeError` or `ValueError` if it does not suit the option."""
    kind = _ROWS[name][0]
    default: Any = _ROWS[name][1]
    if name in _DATA_TYPES:
        legal = _DATA_TYPES[name][1]
        found = {int: _runtime.i32, float: _runtime.f32}.get(value, value) if isinstance(value, type) else value
        if found not in legal:
            raise AssertionError(f"{name} must be one of {', '.join(map(str, legal))}, got {value!r}")
        return found
    if value is None and isinstance(default, str):
        return default
    wanted = (int, float) if isinstance(default, float) else (type(default),)
    if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
        raise TypeError(f"option {name} takes a value of type {type(default).__name__}, got {value!r}")
    if "|" in kind and value not in kind.split("|"):
        raise ValueError(f"option {name} is one of {', '.join(kind.split('|'))}, got {value!r}")
    if type(default) is int and name != "random_seed" and value < 0:  # type: ignore[operator]
        raise ValueError(f"option {name} is a count, got {value!r}")
    if name == "cpu_subgroup_size" and value not in (8, 16, 32):
        raise ValueError(f"option cpu_subgroup_size is 8, 16 or 32, got {value!r}")
    return type(default)(value)  # type: ignore[arg-type]


def list_variables() -> str:
    """Returns a line for each environment variable with a meaning: its value, or that of its option."""
    values = {name: value for name, value in collect({})[0].items() if name != "default_up" and _ROWS[name][4] != "keyword_only"}
    found = dict.fromkeys(_compat.OTHER_VARIABLES, "") | {"QD_" + name.upper(): value for name, value in values.items()}
    return "\n".join(f"{name}={os.environ.get(name) or value}" for name, value in sorted(found.items()))


def describe() -> str:
    """Returns one line for each option: name, default, meaning. Options without an effect come last."""
    lines: dict[bool, list[str]] = {
        False: ["Options (default): meaning"],
        True: ["Accepted for programs that set them, and without effect:"],
    }
    for name, (_, default, doc, key, _) in _ROWS.items():
        lines[key == "accepted"].append(f"    {name} ({default!r})" + (f": {doc}" if doc else ""))
    return "\n".join([*lines[False], "", *lines[True]])


def find_changed(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the options whose values differ from their defaults."""
    compared = _DEFAULTS.keys() - {"arch", "default_up", "log_level"}
    return {name: value for name, value in values.items() if name in compared and value != _DEFAULTS[name]}


class Config:
    """`qd.cfg`: the options of the current runtime as attributes. An assignment applies to kernels that are compiled afterwards."""

    def __getattr__(self, name: str) -> Any:
        name = _compat.OPTIONS.get(name, name)
        if current is None or name not in _ROWS or _ROWS[name][4] == "keyword_only":
            raise AttributeError(f"there is no option {name!r}")
        return Arch[current[name]] if name == "arch" else current[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if current is None or name not in _ROWS or name in ("arch", "default_up"):
            raise AttributeError(f"there is no option {name!r} that can be written")
        updated = {**current, name: check(name, value)}
        _runtime.set_options(plain(updated))
        current.update(updated)

    def __dir__(self) -> list[str]:
        return list(_ROWS)


cfg = Config()

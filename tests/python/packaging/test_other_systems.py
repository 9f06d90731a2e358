"""The options of compiler and linker for systems on which nothing is built: the rules run with `cmake -P`."""

import shutil
import subprocess
from pathlib import Path

import pytest

CMAKE = Path(__file__).resolve().parents[3] / "cmake"
pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake runs the rules")


def find_options(tmp_path, system):
    script = tmp_path / "show.cmake"
    script.write_text(
        f"include({CMAKE}/linking.cmake)\nqd_find_compile_options({system} compile)\n"
        f"qd_find_link_options({system} link PACKED_RELOCATIONS)\nqd_find_export_options({system} exports _runtime list)\n"
        'foreach(name compile link_COMMON link_OWN_RUNTIME link_REPLACES exports)\nmessage("${name}=${${name}}")\nendforeach()\n'
    )
    result = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, check=False)
    pairs = (line.partition("=")[::2] for line in result.stderr.splitlines())
    return result, {name: value.split(";") if value else [] for name, value in pairs}


# Options of GNU's linkers and of ELF, which others refuse.
GNU = (
    "--gc-sections",
    "--icf",
    "--exclude-libs",
    "--version-script",
    "--build-id",
    "-z,",
    "-static-lib",
    "semantic-interposition",
    "-fuse-ld",
)


def test_linux_has_the_options_that_wheels_are_built_with(tmp_path):
    _, options = find_options(tmp_path, "Linux")
    listed = str(options)
    assert all(option in listed for option in GNU) and options["link_REPLACES"] == ["TRUE"]
    assert options["exports"] == ["-Wl,--version-script=list"]


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_other_systems_have_no_options_of_gnu(tmp_path, system):
    result, options = find_options(tmp_path, system)
    assert result.returncode == 0 and options["link_COMMON"] and options["link_REPLACES"] == ["FALSE"]
    assert [option for option in GNU if option in str(options)] == []
    if system == "Darwin":
        assert options["exports"] == ["-Wl,-exported_symbol,_PyInit__runtime"]
    else:
        assert all(option.startswith("/") for name in ("compile", "link_COMMON") for option in options[name])


def test_an_unknown_system_is_refused(tmp_path):
    result, _ = find_options(tmp_path, "Plan9")
    assert result.returncode != 0 and "no build rules for Plan9, only for Linux, Darwin and Windows" in result.stderr

#!/usr/bin/env python3
"""Compiles CUDA C to PTX with the nvrtc of a wheel: `ptx.py WHEEL SOURCE PTX`, for scripts/ptx.sh.

Needs no GPU, no driver and no CUDA toolkit.
"""

import ctypes
import sys
import tempfile
import zipfile
from pathlib import Path

OPTIONS = [b"--gpu-architecture=compute_75", b"--std=c++17"]


def library(wheel, folder):
    """The wheel's nvrtc. It looks for its built-in headers beside itself."""
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if "/lib/libnvrtc" in name]
        paths = [Path(files.extract(name, folder)) for name in names]
    for path in sorted(paths):  # builtins first: then nvrtc finds them wherever the system looks
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return loaded


def compile_to_ptx(nvrtc, name, source):
    """PTX of a source, as bytes; exits with the compiler's words where it does not compile."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None))
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    if nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options) != 0:
        check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        log = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetProgramLog(program, log))
        sys.exit(log.value.decode())
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx.value


def check(result):
    """Exits where nvrtc fails."""
    if result != 0:
        sys.exit(f"nvrtc: error {result}")


def main():
    """Reads, compiles, writes."""
    wheel, source, to = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        nvrtc = library(wheel, folder)
        ptx = compile_to_ptx(nvrtc, source.name.encode(), source.read_bytes())
        to.write_bytes(ptx)


main()

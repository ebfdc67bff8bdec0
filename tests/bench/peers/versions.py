# SPDX-License-Identifier: Apache-2.0
"""The versions of what the peers of compare_gpu.sh are made of, as they are installed for this Python, in a line."""
import importlib.metadata

PACKAGES = ("torch", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "cut-cross-entropy", "liger-kernel", "nvidia-cutlass-dsl")


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    print("peers: " + ", ".join(f"{package} {version_of(package)}" for package in PACKAGES))

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing Norn needs on Debian 12 or Ubuntu 24.04: only what is missing, quietly.
#   tools/install_dependencies.sh [--checks] [--browser] [--old-processors] [--ccache] [--peers] [--spark] [--coverage] [--cluster-tests]
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libfmt-dev libspdlog-dev libcli11-dev libjsoncpp-dev libprotobuf-dev protobuf-compiler zlib1g-dev libpng-dev libjpeg-dev
  libnetcdf-dev netcdf-bin libopenblas-pthread-dev libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-dev python3-venv python3-numpy python3-scipy python3-netcdf4 python3-jsonschema strace
)
for option in "$@"; do
  case "$option" in
    --checks) packages+=(clang-format-14 clang-tidy-14 shellcheck) ;;
    --browser) packages+=(chromium) ;;
    --old-processors) packages+=(qemu-user) ;;
    --ccache) packages+=(ccache) ;;
    --peers) packages+=(python3-torch) ;;
    --spark) packages+=(openjdk-17-jre-headless) ;;
    --coverage) packages+=(clang-14 llvm-14 libclang-rt-14-dev python3-clang-14 python3-coverage) ;;
    --cluster-tests)
      packages+=(slurm-wlm munge iproute2 redis-server redis-tools rabbitmq-server python3-celery python3-redis
        python3-distributed gridengine-master gridengine-exec gridengine-client patchelf)
      ;;
    -h | --help)
      echo "usage: tools/install_dependencies.sh [--checks] [--browser] [--old-processors] [--ccache] [--peers] [--spark] [--coverage] [--cluster-tests]"
      echo "  --checks  also clang-format-14, clang-tidy-14 and shellcheck, for tools/dev/check.sh"
      echo "  --browser also chromium, for tests/integration/report_test.py"
      echo "  --old-processors  also qemu-user (12 MB), for tests of programs and of the package on a processor of 2008"
      echo "  --ccache  also ccache, which CMake does not need"
      echo "  --peers   also python3-torch, for tests/bench/compare_cpu.sh"
      echo "  --spark   also openjdk-17-jre-headless, for tests/python/spark_*_test.py (tools/dev/python_venv.sh --spark)"
      echo "  --coverage  also clang-14, its libclang for Python and python3-coverage, for tools/dev/coverage.sh and mutants.sh"
      echo "  --cluster-tests  also Slurm, Celery with Redis and RabbitMQ, Dask and Grid Engine, for tests/tuner/executors_*_test.py and"
      echo "            tests/integration/slurm_test.py, and iproute2 for two_hosts_test.py; Debian starts their daemons, the tests use their"
      echo "            own. patchelf, too, for HTCondor: tools/dev/unpack_htcondor.sh"
      exit 0
      ;;
    *)
      echo "install_dependencies.sh: unknown option '$option'; see --help" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  echo "install_dependencies.sh: apt is not there, so nothing was installed." >&2
  echo "Norn is built on Debian 12 and Ubuntu 24.04; elsewhere install what these packages hold, then run cmake:" >&2
  printf '  %s\n' "${packages[*]}" >&2
  exit 1
fi

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "install_dependencies.sh: not root, and there is no sudo. As root, run:" >&2
    echo "  apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "dependencies: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
# apt talks much; it is shown only when it fails.
transcript=$(mktemp)
trap 'rm -f "$transcript"' EXIT
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends -y "${missing[@]}"; } > "$transcript" 2>&1; then
  cat "$transcript" >&2
  echo "install_dependencies.sh: apt could not install the packages above; its last words say why." >&2
  exit 1
fi

version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" != 3.25 ]; then
  echo "install_dependencies.sh: cmake $version is too old, 3.25 is needed; Debian 12 and Ubuntu 24.04 have it." >&2
  exit 1
fi
echo "dependencies: done"

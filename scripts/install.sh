#!/bin/sh
# Makes the virtual environment from the lock file: install.sh VENV run|dev|gpu
# "run" leaves out what only tests and benchmarks need; "gpu" adds what a card needs.
set -eu
venv=$1
kind=$2
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "halfsecond needs Python 3.11 or newer; this is $("$python" --version). Set PYTHON=..." >&2
  exit 1
}
sh "$here/scripts/system-packages.sh" libgomp
if [ ! -x "$venv/bin/pip" ]; then
  sh "$here/scripts/system-packages.sh" python3-venv
  echo "making $venv ..."
  "$python" -m venv "$venv"
fi
lock=$here/requirements.lock
[ "$kind" = run ] || lock=$here/requirements-$kind.lock
echo "installing dependencies (a few minutes the first time) ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e "$here"
if [ "$kind" = gpu ]; then
  # Both builds of onnxruntime use one folder: whichever was written last is the one that runs.
  only=$(mktemp)
  trap 'rm -f "$only"' EXIT
  awk '/^[a-z]/ { mine = /^onnxruntime-gpu/ } mine' "$lock" >"$only"
  "$venv/bin/python" -m pip uninstall --quiet --yes onnxruntime
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
    --require-hashes -r "$only"
fi

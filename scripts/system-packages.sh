#!/bin/sh
# Installs a system package if what it brings is missing: system-packages.sh python3-venv|libgomp|libatomic|chromium|npm|sipp|baresip
# Debian and Ubuntu only; elsewhere it says what to install.
set -eu
program=$1
case $program in
  python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null && exit 0; package=python3-venv ;;
  libgomp) python3 -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null && exit 0; package=libgomp1 ;;
  libatomic) python3 -c 'import ctypes; ctypes.CDLL("libatomic.so.1")' 2>/dev/null && exit 0; package=libatomic1 ;;
  chromium) command -v chromium >/dev/null 2>&1 && exit 0; package=chromium ;;
  npm) command -v npm >/dev/null 2>&1 && exit 0; package=npm ;;
  sipp) command -v sipp >/dev/null 2>&1 && exit 0; package=sip-tester ;;
  baresip) command -v baresip >/dev/null 2>&1 && exit 0; package=baresip-core ;;
  *) echo "system-packages.sh: don't know $program" >&2; exit 2 ;;
esac
if ! command -v apt-get >/dev/null 2>&1; then
  echo "Please install $package with your system's package manager and run make again." >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing $package ..."
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq update
$sudo apt-get -qq install -y --no-install-recommends "$package" >/dev/null

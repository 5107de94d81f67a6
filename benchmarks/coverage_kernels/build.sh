#!/usr/bin/env bash
# Compiles the large corpus of docs/isa-coverage.md into a folder: build.sh FOLDER. It takes a while.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
for arch in 75 86 90; do
  nvcc -ptx -std=c++17 -arch=sm_$arch -o "$out/groups_$arch.ptx" "$here/groups.cu"
  nvcc -ptx -std=c++17 -arch=sm_$arch -o "$out/math_$arch.ptx" "$here/../../tests/data/emulator/math_functions.cu"
  for part in 0 1 2; do
    for type in int float double short size_t; do
      name=algorithms_${part}_${type}_$arch
      nvcc -ptx -std=c++17 -arch=sm_$arch -DPART=$part "-DTYPE=$type" -o "$out/$name.ptx" "$here/algorithms.cu"
    done
  done
done

#!/usr/bin/env bash
# Compiles the CUDA files anew with nvcc 13.0; the .ptx files are committed.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.cu; do
  nvcc -ptx -O3 -arch=sm_86 "$source" -o "${source%.cu}.ptx"
done

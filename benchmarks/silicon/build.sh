#!/usr/bin/env bash
# Compiles the kernels for the oldest architecture that nvcc 13 has; the .ptx files are committed.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.cu; do
  nvcc -ptx -O3 -arch=compute_75 -lineinfo "$source" -o "${source%.cu}.ptx"
  sed -i -E 's|^(\s*\.file\s+[0-9]+\s+")[^"]*/([^"/]+")|\1\2|' "${source%.cu}.ptx"
done

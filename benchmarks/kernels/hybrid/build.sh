#!/usr/bin/env bash
# Compiles every kernel of the experiment with nvcc. Run it after changing a .cu; the .ptx files are committed.
# nvcc writes the folder of the source into .file directives: only the file name is kept.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.cu; do
  nvcc -O3 -ptx -arch=sm_86 -lineinfo "$source" -o "${source%.cu}.ptx"
  sed -i -E 's|^(\s*\.file\s+[0-9]+\s+")[^"]*/([^"/]+")|\1\2|' "${source%.cu}.ptx"
done

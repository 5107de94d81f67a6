#!/usr/bin/env bash
# Compiles every sample with nvcc. Run it after changing a .cu; the .ptx files are committed.
# nvcc writes the folder of the source into .file directives: only the file name is kept.
# .target is the oldest architecture that has what the PTX uses, so that each machine file runs it.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.cu; do
  oldest=sm_70
  if [ "$source" = sgemm_cp_async.cu ]; then oldest=sm_80; fi
  nvcc -ptx -arch=sm_86 -lineinfo "$source" -o "${source%.cu}.ptx"
  sed -i -E 's|^(\s*\.file\s+[0-9]+\s+")[^"]*/([^"/]+")|\1\2|' "${source%.cu}.ptx"
  sed -i "s/^\.target sm_86$/.target $oldest/" "${source%.cu}.ptx"
done

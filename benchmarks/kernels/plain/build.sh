#!/usr/bin/env bash
# Compiles the CUDA files anew with nvcc 13.0; the .ptx files are committed.
# nvcc writes the folder of the source into .file directives: only the file name is kept. Facts name the hash of the PTX.
set -euo pipefail
cd "$(dirname "$0")"
for source in *.cu; do
  case $source in plugins.cu | language.cu | models.cu) arch=sm_90 ;; *) arch=sm_86 ;; esac
  nvcc -O3 -ptx -arch=$arch -lineinfo "$source" -o "${source%.cu}.ptx"
  sed -i -E 's|^(\s*\.file\s+[0-9]+\s+")[^"]*/([^"/]+")|\1\2|' "${source%.cu}.ptx"
done

#!/bin/sh
# Compiles the kernels of this folder with the CUDA toolkit.
cd "$(dirname "$0")" || exit 1
for file in loops endless; do
  nvcc -ptx -O3 -arch=sm_80 -o "$file.ptx" "$file.cu" || exit 1
done

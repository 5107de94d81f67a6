#!/bin/sh
# Compiles the kernels of test_joins_kernels.py again: nvcc of CUDA 13. For sm_86 it gives the same
# text but for the target.
set -eu
cd "$(dirname "$0")"
nvcc -O3 -arch=sm_90a -ptx -o joins.ptx joins.cu

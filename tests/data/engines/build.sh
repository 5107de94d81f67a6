#!/bin/sh
# Compiles the kernels of test_engines_kernels.py again: nvcc of CUDA 13.
set -eu
cd "$(dirname "$0")"
nvcc -O3 -arch=sm_90a -ptx -o engines.ptx engines.cu

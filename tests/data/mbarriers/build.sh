#!/bin/sh
# Compiles the kernels of test_mbarriers_kernels.py again: nvcc of CUDA 13.
set -eu
cd "$(dirname "$0")"
nvcc -O3 -arch=sm_90a -ptx -o mbarriers.ptx mbarriers.cu

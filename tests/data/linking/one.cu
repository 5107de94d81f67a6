// Both files as one translation unit.
#define mix mix_of_library
#define calls calls_of_library
#include "library.cu"
#undef mix
#undef calls
#include "main.cu"

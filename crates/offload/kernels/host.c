/* The kernels for the processor at hand: what the tests call. */
#include "lookup.cu"

#include "base/random.h"

#include <math.h>

static uint64_t finalize(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t random_mix(uint64_t a, uint64_t b)
{
    return finalize(finalize(a + UINT64_C(0x9e3779b97f4a7c15)) ^ b);
}

uint64_t random_bits(uint64_t stream, uint64_t index)
{
    return finalize(stream + (index + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

double random_uniform(uint64_t stream, uint64_t index)
{
    return (double)(random_bits(stream, index) >> 11) * 0x1p-53;
}

double random_normal(uint64_t stream, uint64_t index)
{
    double u = 1 - random_uniform(stream, 2 * index); /* (0, 1]: its logarithm exists */
    double v = random_uniform(stream, 2 * index + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

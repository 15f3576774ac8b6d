/* Counter-based random numbers: value i of a stream is a pure function of (stream, i). The mixer is
 * SplitMix64's finalizer (Steele, Lea, Flood 2014). */
#ifndef REHEARSE_BASE_RANDOM_H
#define REHEARSE_BASE_RANDOM_H

#include <stdint.h>

uint64_t random_mix(uint64_t a, uint64_t b);
uint64_t random_bits(uint64_t stream, uint64_t index);
double random_uniform(uint64_t stream, uint64_t index); /* [0, 1) with 53 bits */
double random_normal(uint64_t stream, uint64_t index);  /* mean 0, deviation 1 (Box-Muller) */

#endif

/* How batch normalisation cuts a tensor of pictures into pieces whose sums are added up, and what
 * room these take: one answer for the plan, which places the room, and for the kernels, which are
 * C++. A piece has one group of channels and one chunk of their positions. Channels last: a
 * position is a row of all channels, a group some vectors of it; else a group is one channel and a
 * position a vector of its pixels. */
#ifndef REHEARSE_OP_NORM_CUT_H
#define REHEARSE_OP_NORM_CUT_H

#include <stddef.h>
#include <stdint.h>

/* Pieces enough for any device; fixed, so that sums are the same anywhere. A piece takes so many
 * vectors at a time. */
enum { NORM_PIECES = 264, NORM_AT_A_TIME = 512, NORM_VECTOR_MOST = 8 };

struct norm_cut {
    int channels, vectors;      /* vectors of a row, or of a plane */
    int lanes, rows;            /* of what a piece takes at a time: vectors of a group, positions */
    int groups, chunks, passes; /* passes: times `rows` positions in a chunk */
    int64_t positions;
    double cells; /* elements of a channel */
};

/* `vector` elements are read at once: 1, 2, 4 or 8, which divides a row or plane. */
static inline struct norm_cut norm_cut_of(int64_t n, int64_t c, int64_t h, int64_t w,
                                          int channels_last, int vector)
{
    int64_t area = h * w;
    int64_t row = channels_last ? c : area;
    struct norm_cut t;
    t.channels = (int)c;
    t.cells = (double)(n * area);
    t.vectors = (int)(row / vector);
    t.positions = channels_last ? n * area : n * t.vectors;
    t.groups = channels_last ? (t.vectors + 31) / 32 : (int)c;
    t.lanes = channels_last ? (t.vectors + t.groups - 1) / t.groups : 1;
    t.rows = NORM_AT_A_TIME / t.lanes;
    int64_t most = NORM_PIECES / t.groups > 0 ? NORM_PIECES / t.groups : 1;
    int64_t turns = (t.positions + t.rows - 1) / t.rows;
    t.passes = (int)((turns + most - 1) / most);
    t.chunks = (int)((turns + t.passes - 1) / t.passes);
    return t;
}

/* Bytes of one call, whatever vectors it reads by: two sums a channel, then two a channel and
 * chunk, in fp32. */
static inline size_t norm_cut_bytes(int64_t n, int64_t c, int64_t h, int64_t w, int channels_last)
{
    int64_t most = 0;
    for (int vector = 1; vector <= NORM_VECTOR_MOST && (channels_last ? c : h * w) % vector == 0;
         vector *= 2) {
        struct norm_cut t = norm_cut_of(n, c, h, w, channels_last, vector);
        most = t.chunks > most ? t.chunks : most;
    }
    return (size_t)c * (2 + 2 * (size_t)most) * sizeof(float);
}

#endif

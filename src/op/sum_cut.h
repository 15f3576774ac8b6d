/* How sums over many rows are cut into pieces that blocks of threads add up, and what room the
 * pieces' sums take: one answer for the plan, which places the room, and for the kernels, which are
 * C++. */
#ifndef REHEARSE_OP_SUM_CUT_H
#define REHEARSE_OP_SUM_CUT_H

#include <stddef.h>
#include <stdint.h>

/* Sums of a matrix's columns, as a bias's gradient is: a block has SUM_COLUMNS of them, and a slice
 * of the rows where there are more than SUM_SLICE_ROWS. */
enum { SUM_COLUMNS = 32, SUM_SLICE_ROWS = 2048, SUM_MOST_BLOCKS = 512 };

static inline int column_slices(int64_t rows, int64_t columns)
{
    int64_t most = columns > 0 ? SUM_MOST_BLOCKS / ((columns + SUM_COLUMNS - 1) / SUM_COLUMNS) : 0;
    int64_t slices = (rows + SUM_SLICE_ROWS - 1) / SUM_SLICE_ROWS;
    return (int)(most < 2 || slices < 2 ? 1 : slices < most ? slices : most);
}

/* Of all slices, in fp32; 0: one slice, which writes the result. */
static inline size_t column_sums_bytes(int64_t rows, int64_t columns)
{
    int slices = column_slices(rows, columns);
    return slices > 1 ? (size_t)slices * (size_t)columns * sizeof(float) : 0;
}

/* Blocks of a loss's gradient that gives the loss as well: elements of mse_loss, samples of
 * cross_entropy, so many a block at a time. */
enum { LOSS_BLOCK_ELEMENTS = 256, LOSS_BLOCK_SAMPLES = 8, LOSS_MOST_BLOCKS = 1024 };

static inline int loss_blocks(int64_t count, int each)
{
    int64_t blocks = (count + each - 1) / each;
    return (int)(blocks < 1 ? 1 : blocks < LOSS_MOST_BLOCKS ? blocks : LOSS_MOST_BLOCKS);
}

/* Of all blocks, in fp32; 0: one block, which writes the loss. */
static inline size_t loss_sums_bytes(int64_t count, int each)
{
    int blocks = loss_blocks(count, each);
    return blocks > 1 ? (size_t)blocks * sizeof(float) : 0;
}

#endif

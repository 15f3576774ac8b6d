#include "kernels/cuda/launch.cuh"

__global__ static void pack(const piece_table *table)
{
    piece_table t = table[blockIdx.y];
    FOR_EACH(i, t.n)
        t.flat[i] = t.tensor[i];
}

__global__ static void unpack(const piece_table *table, int accumulate)
{
    piece_table t = table[blockIdx.y];
    FOR_EACH(i, t.n)
        t.tensor[i] = accumulate ? t.tensor[i] + t.flat[i] : t.flat[i];
}

__global__ static void reduce(member_table members, int64_t n, int reduction)
{
    FOR_EACH(i, n) {
        float value = members.send[0][i];
        for (int k = 1; k < members.count; k++) {
            float other = members.send[k][i];
            value = reduction == KERNEL_SUM   ? value + other
                    : reduction == KERNEL_MAX ? fmaxf(value, other)
                                              : fminf(value, other);
        }
        for (int k = 0; k < members.count; k++)
            if (members.receive[k])
                members.receive[k][i] = value;
    }
}

static dim3 grid_for(int pieces, int64_t longest)
{
    int64_t blocks = blocks_for(longest);
    return dim3((unsigned)(blocks < 256 ? blocks : 256), (unsigned)pieces);
}

extern "C" void kernel_pack(cudaStream_t s, const struct piece_table *device_table, int pieces,
                            int64_t longest)
{
    pack<<<grid_for(pieces, longest), threads_per_block, 0, s>>>(device_table);
}

extern "C" void kernel_unpack(cudaStream_t s, const struct piece_table *device_table, int pieces,
                              int64_t longest, int accumulate)
{
    unpack<<<grid_for(pieces, longest), threads_per_block, 0, s>>>(device_table, accumulate);
}

extern "C" void kernel_reduce(cudaStream_t s, struct member_table members, int64_t n,
                              enum kernel_reduction reduction)
{
    reduce<<<blocks_for(n), threads_per_block, 0, s>>>(members, n, reduction);
}

/* The matrix of `nvidia-smi topo -m` or `-p2p`, read and checked: who is how far from whom. */
#ifndef REHEARSE_PLATFORM_IMPORT_MATRIX_H
#define REHEARSE_PLATFORM_IMPORT_MATRIX_H

#include "base/status.h"

#include <stdbool.h>

/* Order: the nearer first, so that entries of PCIe compare. */
enum tie {
    TIE_NONE, /* not read yet */
    TIE_SELF,
    TIE_NVLINK,
    TIE_PIX,  /* one PCIe switch */
    TIE_PXB,  /* several */
    TIE_PHB,  /* a host bridge */
    TIE_NODE, /* host bridges of one NUMA node */
    TIE_SYS,  /* between NUMA nodes */
    TIE_PEER, /* -p2p: access */
    TIE_NO_PEER
};

struct matrix_entry {
    enum tie tie;
    int nvlinks;
};

struct matrix {
    int count; /* GPUs and NICs, in the order of the columns */
    int gpu_count;
    char **names; /* "GPU0", "mlx5_0" (a NIC legend's name if there is one) */
    bool *is_gpu;
    char **affinity;              /* NUMA node, else CPU list, else NULL */
    struct matrix_entry *entries; /* count * count */
    bool peers;                   /* of -p2p */
};

enum rh_status matrix_read(const char *text, struct matrix *matrix);
void matrix_free(struct matrix *matrix);

static inline struct matrix_entry *matrix_entry(const struct matrix *m, int row, int column)
{
    return &m->entries[row * m->count + column];
}

#endif

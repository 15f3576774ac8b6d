#include "kernels/cpu/kernel.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>

void cpu_multiply(int64_t rows, int64_t columns, int64_t inner, struct cpu_matrix a,
                  struct cpu_matrix b, float beta, float *c)
{
    int64_t a_step = a.turned ? rows : inner, b_step = b.turned ? inner : columns;
    assert(rows <= INT_MAX && columns <= INT_MAX && inner <= INT_MAX);
    if (rows == 0 || columns == 0)
        return;
    if (inner == 0) { /* an empty sum; BLAS wants leading dimensions above 0 */
        for (int64_t i = 0; i < rows * columns; i++)
            c[i] = beta == 0 ? 0 : beta * c[i];
        return;
    }
    if (openblas_get_num_threads() != 1) /* for the same sums on every machine and run */
        openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, a.turned ? CblasTrans : CblasNoTrans,
                b.turned ? CblasTrans : CblasNoTrans, (int)rows, (int)columns, (int)inner, 1,
                a.data, (int)a_step, b.data, (int)b_step, beta, c, (int)columns);
}

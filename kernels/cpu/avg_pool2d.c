#include "kernels/cpu/kernel.h"

/* Pixels [begin, end) of one axis that an output averages, and how many it divides by. As torch,
 * padding counts (as zeros) but what ceil_mode lets hang over the padded input does not. */
struct span {
    int64_t begin, end, count;
};

static struct span span_of(int64_t output, int64_t input, int kernel, int stride, int padding)
{
    int64_t begin = output * stride - padding, end = begin + kernel;
    if (end > input + padding)
        end = input + padding;
    int64_t count = end - begin;
    return (struct span){begin < 0 ? 0 : begin, end > input ? input : end, count};
}

/* Adaptive: output i of m takes the pixels from floor(i input / m) to ceil((i + 1) input / m). */
static struct span adaptive_span(int64_t output, int64_t input, int64_t outputs)
{
    int64_t begin = output * input / outputs;
    int64_t end = ((output + 1) * input + outputs - 1) / outputs;
    return (struct span){begin, end, end - begin};
}

static struct span row_span(const struct op *op, int64_t output, int64_t input)
{
    if (op->window.output_h > 0)
        return adaptive_span(output, input, op->window.output_h);
    return span_of(output, input, op->window.kernel_h, op->window.stride_h, op->window.padding_h);
}

static struct span column_span(const struct op *op, int64_t output, int64_t input)
{
    if (op->window.output_w > 0)
        return adaptive_span(output, input, op->window.output_w);
    return span_of(output, input, op->window.kernel_w, op->window.stride_w, op->window.padding_w);
}

enum rh_status cpu_avg_pool2d(const struct cpu_call *call)
{
    const int64_t *x_dim = cpu_read_dim(call, 0), *y_dim = cpu_write_dim(call, 0);
    const float *plane = cpu_read(call, 0);
    float *y = cpu_write(call, 0);
    for (int64_t k = 0; k < x_dim[0] * x_dim[1]; k++, plane += x_dim[2] * x_dim[3])
        for (int64_t p = 0; p < y_dim[2]; p++)
            for (int64_t q = 0; q < y_dim[3]; q++) {
                struct span rows = row_span(call->op, p, x_dim[2]);
                struct span columns = column_span(call->op, q, x_dim[3]);
                double sum = 0;
                for (int64_t h = rows.begin; h < rows.end; h++)
                    for (int64_t w = columns.begin; w < columns.end; w++)
                        sum += plane[h * x_dim[3] + w];
                *y++ = (float)(sum / (double)(rows.count * columns.count));
            }
    return RH_OK;
}

enum rh_status cpu_avg_pool2d_grad(const struct cpu_call *call)
{
    const int64_t *x_dim = cpu_write_dim(call, 0), *y_dim = cpu_read_dim(call, 0);
    const float *gy = cpu_read(call, 0);
    float *gx = cpu_write(call, 0);
    int64_t pixels = x_dim[2] * x_dim[3];
    for (int64_t k = 0; k < x_dim[0] * x_dim[1]; k++, gx += pixels) {
        for (int64_t i = 0; i < pixels; i++)
            gx[i] = 0;
        for (int64_t p = 0; p < y_dim[2]; p++)
            for (int64_t q = 0; q < y_dim[3]; q++) {
                struct span rows = row_span(call->op, p, x_dim[2]);
                struct span columns = column_span(call->op, q, x_dim[3]);
                float share = *gy++ / (float)(rows.count * columns.count);
                for (int64_t h = rows.begin; h < rows.end; h++)
                    for (int64_t w = columns.begin; w < columns.end; w++)
                        gx[h * x_dim[3] + w] += share;
            }
    }
    return RH_OK;
}

/* 2-d convolution as matrix products. For one image and one group, im2col lays out each output
 * pixel's window of the input as a column, so that with the group's weights [o/g, c/g*kh*kw]
 *     y = w columns,   gw = gy columns^T,   gcolumns = w^T gy,
 * and col2im adds gcolumns back to the pixels that they were copied from. */
#include "kernels/cpu/kernel.h"

#include <stdlib.h>
#include <string.h>

/* Sizes of one group of one image; `window` is c/g * kh * kw, `pixels` is p * q. */
struct geometry {
    int64_t images, groups, channels, height, width, outputs, out_height, out_width;
    int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation;
    int64_t window, pixels;
    bool direct; /* 1x1, stride 1, no padding: the columns are the image itself */
};

static struct geometry geometry_of(const struct op *op, const int64_t *x, const int64_t *y)
{
    struct geometry g = {
        .images = x[0],
        .groups = op->window.groups,
        .channels = x[1] / op->window.groups,
        .height = x[2],
        .width = x[3],
        .outputs = y[1] / op->window.groups,
        .out_height = y[2],
        .out_width = y[3],
        .kernel_h = op->window.kernel_h,
        .kernel_w = op->window.kernel_w,
        .stride_h = op->window.stride_h,
        .stride_w = op->window.stride_w,
        .padding_h = op->window.padding_h,
        .padding_w = op->window.padding_w,
        .dilation = op->window.dilation,
    };
    g.window = g.channels * g.kernel_h * g.kernel_w;
    g.pixels = g.out_height * g.out_width;
    g.direct = g.kernel_h == 1 && g.kernel_w == 1 && g.stride_h == 1 && g.stride_w == 1 &&
               g.padding_h == 0 && g.padding_w == 0;
    return g;
}

/* NULL (and no error) where the image itself serves. */
static enum rh_status columns_new(const struct geometry *g, float **columns)
{
    size_t count = (size_t)g->window * (size_t)g->pixels;
    *columns = NULL;
    if (g->direct || count == 0)
        return RH_OK;
    *columns = malloc(count * sizeof **columns);
    if (!*columns)
        return fail(RH_OUT_OF_MEMORY,
                    "no host memory for the columns of op 'conv2d': %zu bytes asked",
                    count * sizeof **columns);
    return RH_OK;
}

static const float *im2col(const struct geometry *g, const float *image, float *columns)
{
    float *out = columns;
    if (!columns)
        return image;
    for (int64_t row = 0; row < g->window; row++) {
        int64_t kw = row % g->kernel_w, kh = row / g->kernel_w % g->kernel_h;
        const float *plane = image + row / (g->kernel_w * g->kernel_h) * g->height * g->width;
        for (int64_t p = 0; p < g->out_height; p++) {
            int64_t h = p * g->stride_h - g->padding_h + kh * g->dilation;
            bool inside = h >= 0 && h < g->height;
            for (int64_t q = 0; q < g->out_width; q++) {
                int64_t w = q * g->stride_w - g->padding_w + kw * g->dilation;
                *out++ = inside && w >= 0 && w < g->width ? plane[h * g->width + w] : 0;
            }
        }
    }
    return columns;
}

/* Adds to the image's gradient. */
static void col2im(const struct geometry *g, const float *columns, float *image)
{
    const float *in = columns;
    for (int64_t row = 0; row < g->window; row++) {
        int64_t kw = row % g->kernel_w, kh = row / g->kernel_w % g->kernel_h;
        float *plane = image + row / (g->kernel_w * g->kernel_h) * g->height * g->width;
        for (int64_t p = 0; p < g->out_height; p++) {
            int64_t h = p * g->stride_h - g->padding_h + kh * g->dilation;
            bool inside = h >= 0 && h < g->height;
            for (int64_t q = 0; q < g->out_width; q++, in++) {
                int64_t w = q * g->stride_w - g->padding_w + kw * g->dilation;
                if (inside && w >= 0 && w < g->width)
                    plane[h * g->width + w] += *in;
            }
        }
    }
}

/* Part `index` of an image-major array: images in turn, in each its groups in turn. */
static int64_t part_x(const struct geometry *g, int64_t index)
{
    return index * g->channels * g->height * g->width;
}

static int64_t part_y(const struct geometry *g, int64_t index)
{
    return index * g->outputs * g->pixels;
}

static int64_t part_w(const struct geometry *g, int64_t index)
{
    return index % g->groups * g->outputs * g->window;
}

enum rh_status cpu_conv2d(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *w = cpu_read(call, 1), *b = cpu_read(call, 2);
    struct geometry g = geometry_of(call->op, cpu_read_dim(call, 0), cpu_write_dim(call, 0));
    float *y = cpu_write(call, 0), *columns;
    RETURN_IF_FAILED(columns_new(&g, &columns));
    for (int64_t i = 0; i < g.images * g.groups; i++) {
        float *part = y + part_y(&g, i);
        const float *bias = b ? b + i % g.groups * g.outputs : NULL;
        for (int64_t k = 0; bias && k < g.outputs * g.pixels; k++)
            part[k] = bias[k / g.pixels];
        const float *window = im2col(&g, x + part_x(&g, i), columns);
        cpu_multiply(g.outputs, g.pixels, g.window, (struct cpu_matrix){w + part_w(&g, i), false},
                     (struct cpu_matrix){window, false}, b ? 1 : 0, part);
    }
    free(columns);
    return RH_OK;
}

enum rh_status cpu_conv2d_input_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *w = cpu_read(call, 1);
    struct geometry g = geometry_of(call->op, cpu_write_dim(call, 0), cpu_read_dim(call, 0));
    float *gx = cpu_write(call, 0), *columns;
    bool add = call->op->accumulate;
    RETURN_IF_FAILED(columns_new(&g, &columns));
    for (int64_t i = 0; i < g.images * g.groups; i++) {
        float *part = gx + part_x(&g, i);
        float *target = columns ? columns : part;
        cpu_multiply(g.window, g.pixels, g.outputs, (struct cpu_matrix){w + part_w(&g, i), true},
                     (struct cpu_matrix){gy + part_y(&g, i), false}, add && !columns ? 1 : 0,
                     target);
        if (!columns)
            continue;
        if (!add)
            memset(part, 0, (size_t)(g.channels * g.height * g.width) * sizeof *part);
        col2im(&g, columns, part);
    }
    free(columns);
    return RH_OK;
}

static void bias_grad(const struct geometry *g, const float *gy, bool add, float *gb)
{
    int64_t outputs = g->groups * g->outputs;
    for (int64_t o = 0; o < outputs; o++) {
        double sum = add ? gb[o] : 0;
        for (int64_t n = 0; n < g->images; n++)
            for (int64_t k = 0; k < g->pixels; k++)
                sum += gy[(n * outputs + o) * g->pixels + k];
        gb[o] = (float)sum;
    }
}

enum rh_status cpu_conv2d_weight_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *x = cpu_read(call, 1);
    struct geometry g = geometry_of(call->op, cpu_read_dim(call, 1), cpu_read_dim(call, 0));
    float *gw = cpu_write(call, 0), *gb = cpu_write(call, 1), *columns;
    int64_t elements = cpu_write_elements(call, 0);
    RETURN_IF_FAILED(columns_new(&g, &columns));
    for (int64_t i = 0; i < elements && !call->op->accumulate; i++)
        gw[i] = 0;
    for (int64_t i = 0; i < g.images * g.groups; i++) {
        const float *window = im2col(&g, x + part_x(&g, i), columns);
        cpu_multiply(g.outputs, g.window, g.pixels, (struct cpu_matrix){gy + part_y(&g, i), false},
                     (struct cpu_matrix){window, true}, 1, gw + part_w(&g, i));
    }
    free(columns);
    if (gb)
        bias_grad(&g, gy, call->op->accumulate, gb);
    return RH_OK;
}

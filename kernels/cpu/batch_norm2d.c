/* Batch normalisation over n, h and w of each channel, with x^ = (x - mean) invstd:
 *     y = gamma x^ + beta
 *     gx = gamma invstd (gy - mean(gy) - x^ mean(gy x^))
 *     ggamma = sum(gy x^),  gbeta = sum(gy)
 * A residual is added to y, and relu taken of it, where they are fused into the op; its gradient
 * then begins with gy where y > 0.
 * Training normalises by the biased variance; the running one takes the unbiased. */
#include "kernels/cpu/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One channel of (n, c, h, w): `images` runs of `pixels`, `stride` apart, from `first` on. */
struct channel {
    int64_t first, images, pixels, stride;
    double count;
};

static struct channel channel_of(const int64_t *dim, int64_t c)
{
    int64_t pixels = dim[2] * dim[3];
    return (struct channel){c * pixels, dim[0], pixels, dim[1] * pixels, (double)(dim[0] * pixels)};
}

static double channel_mean(const struct channel *c, const float *x)
{
    double sum = 0;
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++)
            sum += x[c->first + n * c->stride + i];
    return sum / c->count;
}

static double channel_variance(const struct channel *c, const float *x, double mean)
{
    double sum = 0;
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++) {
            double difference = x[c->first + n * c->stride + i] - mean;
            sum += difference * difference;
        }
    return sum / c->count;
}

static void normalize(const struct channel *c, const float *x, double scale, double shift,
                      const float *residual, bool relu, float *y)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++) {
            int64_t at = c->first + n * c->stride + i;
            y[at] = (float)(x[at] * scale + shift);
            if (residual)
                y[at] += residual[at];
            if (relu && y[at] < 0)
                y[at] = 0;
        }
}

/* sum(gy) and sum(gy x^) */
static void gradient_sums(const struct channel *c, const float *gy, const float *x, double mean,
                          double invstd, double *sum, double *dot)
{
    *sum = *dot = 0;
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++) {
            int64_t at = c->first + n * c->stride + i;
            *sum += gy[at];
            *dot += gy[at] * (x[at] - mean) * invstd;
        }
}

static void input_gradient(const struct channel *c, const float *gy, const float *x, double mean,
                           double invstd, double gamma, double sum, double dot, float *gx)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++) {
            int64_t at = c->first + n * c->stride + i;
            double centred = gy[at] - sum / c->count;
            double normal = (x[at] - mean) * invstd;
            gx[at] = (float)(gamma * invstd * (centred - normal * dot / c->count));
        }
}

/* gy where relu let something through: y > 0; without y it is computed anew. */
static void mask(const struct channel *c, const float *gy, const float *y, const float *x,
                 double scale, double shift, float *masked)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->pixels; i++) {
            int64_t at = c->first + n * c->stride + i;
            float out = y ? y[at] : (float)(x[at] * scale + shift);
            masked[at] = out > 0 ? gy[at] : 0;
        }
}

enum rh_status cpu_batch_norm2d(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *gamma = cpu_read(call, 1), *beta = cpu_read(call, 2);
    const float *old_mean = cpu_read(call, 3), *old_var = cpu_read(call, 4);
    const int64_t *dim = cpu_read_dim(call, 0), *old_count = cpu_read_integers(call, 5);
    double epsilon = call->op->norm.epsilon, momentum = call->op->norm.momentum;
    bool training = call->op->norm.training;
    for (int64_t k = 0; k < dim[1]; k++) {
        struct channel c = channel_of(dim, k);
        double mean = training ? channel_mean(&c, x) : old_mean[k];
        double var = training ? channel_variance(&c, x, mean) : old_var[k];
        double invstd = 1 / sqrt(var + epsilon);
        double scale = gamma[k] * invstd;
        normalize(&c, x, scale, beta[k] - mean * scale, cpu_read(call, 6), call->op->norm.relu,
                  cpu_write(call, 0));
        if (!training)
            continue;
        double unbiased = var * c.count / (c.count - 1);
        cpu_write(call, 1)[k] = (float)mean;
        cpu_write(call, 2)[k] = (float)invstd;
        cpu_write(call, 3)[k] = (float)((1 - momentum) * old_mean[k] + momentum * mean);
        cpu_write(call, 4)[k] = (float)((1 - momentum) * old_var[k] + momentum * unbiased);
    }
    if (training)
        *(int64_t *)call->writes[5].data = *old_count + 1;
    return RH_OK;
}

enum rh_status cpu_batch_norm2d_input_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *x = cpu_read(call, 1), *gamma = cpu_read(call, 2);
    const float *means = cpu_read(call, 3), *invstds = cpu_read(call, 4);
    const int64_t *dim = cpu_read_dim(call, 1);
    float *gx = cpu_write(call, 0);
    for (int64_t k = 0; k < dim[1]; k++) {
        struct channel c = channel_of(dim, k);
        double sum, dot, mean = means[k], invstd = invstds[k];
        gradient_sums(&c, gy, x, mean, invstd, &sum, &dot);
        input_gradient(&c, gy, x, mean, invstd, gamma[k], sum, dot, gx);
    }
    return RH_OK;
}

enum rh_status cpu_batch_norm2d_weight_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *x = cpu_read(call, 1);
    const float *means = cpu_read(call, 2), *invstds = cpu_read(call, 3);
    float *ggamma = cpu_write(call, 0), *gbeta = cpu_write(call, 1);
    const int64_t *dim = cpu_read_dim(call, 1);
    bool add = call->op->accumulate;
    for (int64_t k = 0; k < dim[1]; k++) {
        struct channel c = channel_of(dim, k);
        double sum, dot;
        gradient_sums(&c, gy, x, means[k], invstds[k], &sum, &dot);
        ggamma[k] = (float)((add ? ggamma[k] : 0) + dot);
        gbeta[k] = (float)((add ? gbeta[k] : 0) + sum);
    }
    return RH_OK;
}

enum rh_status cpu_batch_norm2d_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *x = cpu_read(call, 1), *gamma = cpu_read(call, 2);
    const float *beta = cpu_read(call, 3), *means = cpu_read(call, 4), *invstds = cpu_read(call, 5);
    const float *y = cpu_read(call, 6);
    float *gx = cpu_write(call, 0), *ggamma = cpu_write(call, 1), *gbeta = cpu_write(call, 2);
    const int64_t *dim = cpu_read_dim(call, 1);
    bool add = call->op->accumulate, relu = call->op->norm.relu;
    size_t bytes = (size_t)cpu_read_elements(call, 0) * sizeof(float);
    float *masked = malloc(bytes + 1), *residual = cpu_write(call, 3);
    if (!masked)
        return fail(RH_OUT_OF_MEMORY, "op 'batch_norm2d_grad': no memory for %zu bytes", bytes);
    memcpy(masked, gy, bytes);
    for (int64_t k = 0; k < dim[1]; k++) {
        struct channel c = channel_of(dim, k);
        double sum, dot, mean = means[k], invstd = invstds[k], scale = gamma[k] * invstd;
        if (relu)
            mask(&c, gy, y, x, scale, beta[k] - mean * scale, masked);
        gradient_sums(&c, masked, x, mean, invstd, &sum, &dot);
        input_gradient(&c, masked, x, mean, invstd, gamma[k], sum, dot, gx);
        ggamma[k] = (float)((add ? ggamma[k] : 0) + dot);
        gbeta[k] = (float)((add ? gbeta[k] : 0) + sum);
    }
    if (residual)
        memcpy(residual, masked, bytes);
    free(masked);
    return RH_OK;
}

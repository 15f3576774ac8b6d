/* 1x1 convolutions of channels-last tensors as products of matrices. */
#include "backends/cuda/convolution_way.h"

#include <stdio.h>

enum { MOST_PRODUCTS = 4 };

static bool is_product(const struct convolution_request *r)
{
    const struct op *op = &r->op;
    return r->channels_last && op->window.groups == 1 && op->window.kernel_h == 1 &&
           op->window.kernel_w == 1 && op->window.stride_h == 1 && op->window.stride_w == 1 &&
           op->window.padding_h == 0 && op->window.padding_w == 0;
}

static struct matmul_request matmul_of(const struct convolution_request *r,
                                       const struct convolution_form *form, size_t room_bytes)
{
    int64_t pixels = r->n * r->h * r->w;
    int alignment = r->alignment_bytes ? r->alignment_bytes : 16;
    struct matmul_request request = {.type = r->type,
                                     .out = form->writes,
                                     .compute = r->op.compute,
                                     .b_alignment = alignment,
                                     .a_alignment = alignment,
                                     .out_alignment = alignment,
                                     .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                     .workspace_most_bytes = room_bytes};
    switch (r->op.kind) {
    case OP_conv2d: /* y' (k x pixels) = w (k x c) x' */
        request.m = r->k, request.n = pixels, request.k = r->c, request.transpose_b = true;
        break;
    case OP_conv2d_input_grad: /* gx' (c x pixels) = w' gy' */
        request.m = r->c, request.n = pixels, request.k = r->k;
        break;
    default: /* gw' (c x k) = x' gy */
        request.m = r->c, request.n = r->k, request.k = pixels, request.transpose_a = true;
        break;
    }
    return request;
}

void convolution_products(struct session *s, const struct convolution_request *r,
                          const struct convolution_form *form, struct convolution_way *ways,
                          int *count, int most)
{
    struct matmul found[MOST_PRODUCTS];
    size_t room_bytes;
    if (!is_product(r) || !convolution_room(r, form, &room_bytes))
        return;
    struct matmul_request request = matmul_of(r, form, room_bytes);
    int listed = matmul_list(s, &request, NULL, found,
                             most - *count < MOST_PRODUCTS ? most - *count : MOST_PRODUCTS);
    for (int i = 0; i < listed; i++) {
        struct convolution_way *way = &ways[(*count)++];
        *way = (struct convolution_way){
            .form = *form, .product = found[i], .engine_bytes = found[i].workspace_bytes};
        snprintf(way->engine, sizeof way->engine, "cublaslt %d%s", found[i].number,
                 form->adds ? ", beta 1" : "");
    }
}

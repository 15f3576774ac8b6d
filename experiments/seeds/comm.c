/* The seed article's four calls of torch.cuda.comm, on the public API alone: what the article prints
 * beside what really happens, as PyTorch does it, on three GPUs of a simulated DGX-1.
 *
 *     cc comm.c $(pkg-config --cflags --libs rehearse) -o comm && ./comm
 */
#include <rehearse.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEVICES = 3 };

static void check(enum rh_status status)
{
    if (status == RH_OK)
        return;
    fprintf(stderr, "comm: %s\n", rh_error());
    exit((int)status);
}

static struct rh_tensor *tensor_new(struct rh_cluster *cluster, int device, int rank,
                                    const int64_t *dims, const float *values)
{
    struct rh_tensor *tensor = NULL;
    check(rh_tensor_new(cluster, device, RH_FLOAT32, rank, dims, &tensor));
    check(rh_tensor_write(tensor, values, rh_tensor_bytes(tensor)));
    return tensor;
}

static void print_tensor(const char *what, const struct rh_tensor *tensor)
{
    float values[16];
    int rank = rh_tensor_rank(tensor);
    int64_t rows = rank == 2 ? rh_tensor_dim(tensor, 0) : 1;
    int64_t columns = rh_tensor_dim(tensor, rank - 1);
    check(rh_tensor_read(tensor, values, rh_tensor_bytes(tensor)));
    printf("    %s on cuda:%d: %s", what, rh_tensor_device(tensor), rank == 2 ? "[" : "");
    for (int64_t r = 0; r < rows; r++) {
        printf("%s[", r ? ", " : "");
        for (int64_t c = 0; c < columns; c++)
            printf("%s%g", c ? ", " : "", values[r * columns + c]);
        printf("]");
    }
    printf("%s\n", rank == 2 ? "]" : "");
}

static void free_all(struct rh_tensor **tensors, int count)
{
    for (int i = 0; i < count; i++)
        rh_tensor_free(tensors[i]);
}

static void broadcast(struct rh_cluster *cluster)
{
    static const int devices[DEVICES] = {0, 1, 2};
    struct rh_tensor *source =
        tensor_new(cluster, 0, 1, (const int64_t[]){3}, (const float[]){1, 2, 3});
    struct rh_tensor *copies[DEVICES];
    check(rh_broadcast(source, devices, DEVICES, copies, NULL));
    puts("broadcast of [1, 2, 3] to three devices\n"
         "  the article: [1] on cuda:0, [2] on cuda:1, [3] on cuda:2 (that would be scatter)\n"
         "  really: all of it everywhere");
    for (int i = 0; i < DEVICES; i++)
        print_tensor("copy", copies[i]);
    printf("    the one on cuda:0 %s the source itself\n",
           rh_tensor_same(copies[0], source) ? "is" : "is not");
    free_all(copies, DEVICES);
    rh_tensor_free(source);
}

static void reduce_add(struct rh_cluster *cluster)
{
    struct rh_tensor *inputs[DEVICES];
    struct rh_tensor *sum = NULL;
    for (int i = 0; i < DEVICES; i++)
        inputs[i] = tensor_new(cluster, i, 1, (const int64_t[]){3}, (const float[]){1, 2, 3});
    check(rh_reduce_add(inputs, DEVICES, 0, &sum, NULL));
    puts("reduce_add of three [1, 2, 3]\n"
         "  the article: [3, 6, 9]\n"
         "  really: the same; one of the inputs must be on the destination");
    print_tensor("sum", sum);
    rh_tensor_free(sum);
    if (rh_reduce_add(inputs + 1, 2, 0, &sum, NULL) != RH_OK)
        printf("    without cuda:0's: %s\n", rh_error());
    free_all(inputs, DEVICES);
}

static void scatter(struct rh_cluster *cluster)
{
    static const int devices[DEVICES] = {0, 1, 2};
    struct rh_tensor *source =
        tensor_new(cluster, 0, 2, (const int64_t[]){2, 3}, (const float[]){1, 2, 3, 4, 5, 6});
    struct rh_tensor *chunks[DEVICES];
    int pieces = 0;
    check(rh_scatter(source, devices, DEVICES, NULL, 0, chunks, &pieces, NULL));
    puts("scatter of [[1, 2, 3], [4, 5, 6]] to three devices\n"
         "  the article: three rows\n"
         "  really: there are two rows, so two chunks; the third device gets nothing");
    for (int i = 0; i < pieces; i++)
        print_tensor("chunk", chunks[i]);
    free_all(chunks, pieces);
    check(rh_scatter(source, devices, DEVICES, NULL, 1, chunks, &pieces, NULL));
    puts("  three chunks come from dimension 1");
    for (int i = 0; i < pieces; i++)
        print_tensor("chunk", chunks[i]);
    free_all(chunks, pieces);
    rh_tensor_free(source);
}

static void gather(struct rh_cluster *cluster)
{
    struct rh_tensor *vectors[DEVICES];
    struct rh_tensor *rows[DEVICES];
    struct rh_tensor *all = NULL;
    for (int i = 0; i < DEVICES; i++) {
        const float values[3] = {(float)(3 * i + 1), (float)(3 * i + 2), (float)(3 * i + 3)};
        vectors[i] = tensor_new(cluster, i, 1, (const int64_t[]){3}, values);
        rows[i] = tensor_new(cluster, i, 2, (const int64_t[]){1, 3}, values);
    }
    check(rh_gather(vectors, DEVICES, 0, 0, &all, NULL));
    puts("gather of [1, 2, 3], [4, 5, 6], [7, 8, 9] along dimension 0\n"
         "  the article: a 3 x 3 matrix\n"
         "  really: gather concatenates, it never stacks");
    print_tensor("all", all);
    rh_tensor_free(all);
    check(rh_gather(rows, DEVICES, 0, 0, &all, NULL));
    puts("  a matrix comes from inputs of shape (1, 3)");
    print_tensor("all", all);
    rh_tensor_free(all);
    free_all(vectors, DEVICES);
    free_all(rows, DEVICES);
}

int main(int argc, char **argv)
{
    struct rh_cluster *cluster = NULL;
    check(rh_cluster_open("dgx-1v-32gb", DEVICES, argc > 1 ? argv[1] : "reference", &cluster));
    broadcast(cluster);
    reduce_add(cluster);
    scatter(cluster);
    gather(cluster);
    rh_cluster_close(cluster);
    return 0;
}

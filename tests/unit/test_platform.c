/* Devices, nodes and clusters from the data files: facts, routes, and errors that say what is
 * wrong. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/platform.h"
#include "unit.h"

static struct platform *open_platform(void)
{
    struct platform *p = NULL;
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    CU_ASSERT_EQUAL_FATAL(platform_open(&p), RH_OK);
    return p;
}

/* Text is JSON; single quotes stand for double ones. */
static enum rh_status open_text(struct platform *p, const char *text, int devices,
                                struct cluster **cluster)
{
    char *json_text = text_copy(text);
    for (char *c = json_text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    cJSON *json = cJSON_Parse(json_text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    free(json_text);
    enum rh_status status = cluster_open(p, json, "test", devices, cluster);
    cJSON_Delete(json);
    return status;
}

static struct cluster *must_open(struct platform *p, const char *text, int devices)
{
    struct cluster *c = NULL;
    enum rh_status status = open_text(p, text, devices, &c);
    if (status != RH_OK)
        fprintf(stderr, "    %s: %s\n", text, fail_message());
    CU_ASSERT_EQUAL_FATAL(status, RH_OK);
    return c;
}

static struct route must_route(struct cluster *c, int from, int to, int channel)
{
    struct route route = {0};
    CU_ASSERT_EQUAL_FATAL(cluster_route(c, from, to, channel, &route), RH_OK);
    return route;
}

static void refuses(struct platform *p, const char *text, int devices, const char *part)
{
    struct cluster *c = NULL;
    CU_ASSERT_EQUAL(open_text(p, text, devices, &c), RH_INVALID);
    CU_ASSERT_PTR_NULL(c);
    UNIT_ASSERT_CONTAINS(fail_message(), part);
}

static void test_every_file(void)
{
    struct platform *p = open_platform();
    int count = 0;
    const char *const *names = platform_names(p, PLATFORM_DEVICE, &count);
    CU_ASSERT_TRUE(count >= 14);
    for (int i = 0; i < count; i++) {
        const struct device_model *device = NULL;
        if (i)
            CU_ASSERT_TRUE(strcmp(names[i - 1], names[i]) < 0);
        CU_ASSERT_EQUAL_FATAL(platform_device(p, names[i], &device), RH_OK);
        CU_ASSERT_STRING_EQUAL(device->name, names[i]);
        CU_ASSERT_TRUE(strlen(device->source) > 10 && device->file_hash != 0);
    }
    names = platform_names(p, PLATFORM_NODE, &count);
    CU_ASSERT_TRUE(count >= 10);
    for (int i = 0; i < count; i++) {
        const struct node_model *node = NULL;
        CU_ASSERT_EQUAL_FATAL(platform_node(p, names[i], &node), RH_OK);
        CU_ASSERT_TRUE(node->gpu_count >= 1 && node->host->host);
    }
    names = platform_names(p, PLATFORM_CLUSTER, &count);
    CU_ASSERT_TRUE(count >= 11);
    for (int i = 0; i < count; i++) {
        char *text = text_format("'%s'", names[i]);
        struct cluster *c = must_open(p, text, 16);
        CU_ASSERT_TRUE(c->gpu_count >= 16 && c->node_count >= 2);
        cluster_free(c);
        free(text);
    }
    int files = 0;
    const struct platform_file *read = platform_files(p, &files);
    CU_ASSERT_TRUE(files >= 35);
    UNIT_ASSERT_CONTAINS(read[0].path, "platforms/devices/a100-sxm4-40gb.json");
    platform_close(p);
}

static void test_devices(void)
{
    struct platform *p = open_platform();
    const struct device_model *v100 = NULL;
    const struct device_model *a100 = NULL;
    const struct device_model *again = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_device(p, "v100-sxm2-32gb", &v100), RH_OK);
    CU_ASSERT_EQUAL_FATAL(platform_device(p, "a100-sxm4-40gb", &a100), RH_OK);
    CU_ASSERT_EQUAL_FATAL(platform_device(p, "v100-sxm2-32gb", &again), RH_OK);
    CU_ASSERT_PTR_EQUAL(v100, again);
    CU_ASSERT_EQUAL(v100->flops_per_second[DTYPE_F32], 15.7e12);
    CU_ASSERT_EQUAL(v100->flops_per_second[DTYPE_F16], 125e12);
    CU_ASSERT_EQUAL(v100->flops_per_second[DTYPE_BF16], 0);
    CU_ASSERT_EQUAL(v100->flops_per_second[DTYPE_TF32], 0);
    CU_ASSERT_EQUAL(v100->memory_bytes, 32510.0 * (1 << 20));
    CU_ASSERT_EQUAL_FATAL(platform_device(p, "h200-sxm-141gb", &again), RH_OK);
    CU_ASSERT_EQUAL(again->memory_bytes, 143771.0 * (1 << 20)); /* as the driver lists it */
    CU_ASSERT_EQUAL(again->workspace.matmul_bytes, 32 << 20);   /* cuBLAS's own */
    CU_ASSERT_EQUAL(v100->workspace.matmul_bytes, 4 << 20);
    CU_ASSERT_EQUAL(v100->nvlink_count * v100->nvlink_bytes_per_second, 120e9);
    CU_ASSERT_EQUAL(v100->collective_compute_share, 0.15);
    CU_ASSERT_EQUAL(v100->bucket_tensor_seconds, 0);
    CU_ASSERT_EQUAL(a100->flops_per_second[DTYPE_BF16], 312e12);
    CU_ASSERT_EQUAL(a100->nvlink_count * a100->nvlink_bytes_per_second, 240e9);
    CU_ASSERT_EQUAL(platform_device(p, "v100-sxm2-33gb", &again), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "did you mean 'v100-sxm2-32gb'");
    platform_close(p);
}

static void test_cube_mesh_routes(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'dgx-1v-32gb'", 8);
    CU_ASSERT_EQUAL(c->gpu_count, 8);
    CU_ASSERT_EQUAL(c->fabric, FABRIC_NONE);
    CU_ASSERT_EQUAL(node_nvlinks(c->nodes[0], 0, 1), 1);
    CU_ASSERT_EQUAL(node_nvlinks(c->nodes[0], 3, 0), 2);
    CU_ASSERT_EQUAL(node_nvlinks(c->nodes[0], 0, 5), 0);
    struct route r = must_route(c, 0, 1, 0);
    CU_ASSERT_TRUE(r.by_nvlink && !r.by_network && r.count == 1);
    CU_ASSERT_EQUAL(r.bytes_per_second, 20e9);
    r = must_route(c, 0, 3, 0);
    CU_ASSERT_EQUAL(r.bytes_per_second, 40e9);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[0])->name, "n0.gpu0-gpu3.up");
    r = must_route(c, 3, 0, 0);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[0])->name, "n0.gpu0-gpu3.down");
    /* no NVLink between 0 and 5: PCIe, both CPUs, PCIe; no GPU forwards */
    r = must_route(c, 0, 5, 0);
    CU_ASSERT_TRUE(!r.by_nvlink && !r.by_network && r.count == 5);
    CU_ASSERT_EQUAL(r.bytes_per_second, 10e9);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[2])->class, LINK_SOCKET);
    UNIT_ASSERT_NEAR(r.latency_seconds, 4 * 3e-7 + 2e-7, 1e-12);
    r = must_route(c, 4, 4, 0);
    CU_ASSERT_TRUE(r.count == 0 && r.latency_seconds == 0);
    /* to the host's memory: GPU, switch, CPU, memory */
    r = must_route(c, 0, cluster_host_device(c, 0), 0);
    CU_ASSERT_EQUAL(r.count, 3);
    CU_ASSERT_EQUAL(r.bytes_per_second, 12e9);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[2])->class, LINK_MEMORY);
    char name[48];
    CU_ASSERT_STRING_EQUAL(cluster_device_name(c, 5, name), "node0:gpu5");
    CU_ASSERT_STRING_EQUAL(cluster_device_name(c, 8, name), "node0:host");
    CU_ASSERT_TRUE(cluster_device_model(c, 8)->host);
    cluster_free(c);
    platform_close(p);
}

static void test_switch_routes(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'hgx-h100'", 16);
    CU_ASSERT_EQUAL(c->node_count, 2);
    CU_ASSERT_EQUAL(node_nvlinks(c->nodes[0], 0, 7), -1);
    struct route r = must_route(c, 8, 15, 0);
    CU_ASSERT_TRUE(r.count == 2 && r.by_nvlink && !r.by_network);
    UNIT_ASSERT_NEAR(r.bytes_per_second, 18 * 20.6e9, 1e-12);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[0])->name, "n1.gpu0-nvswitch.up");
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[1])->name, "n1.gpu7-nvswitch.down");
    cluster_free(c);
    platform_close(p);
}

static void test_network_routes(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'dgx-1v'", 16);
    /* GPU 2's nearest NIC is mlx5_1, GPU 10's (node 1, GPU 2) too: one leaf, whatever the channel
     */
    struct route r = must_route(c, 2, 10, 3);
    CU_ASSERT_TRUE(r.by_network && r.count == 6);
    CU_ASSERT_EQUAL(r.bytes_per_second, 12e9);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[2])->name, "n0.mlx5_1.out");
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[3])->name, "n1.mlx5_1.in");
    CU_ASSERT_EQUAL(cluster_link(c, r.links[3])->class, LINK_NIC);
    /* to another rail: over the spine */
    r = must_route(c, 2, 8, 0);
    CU_ASSERT_EQUAL(r.count, 8);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[3])->name, "leaf1.up");
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[4])->name, "leaf0.down");
    CU_ASSERT_EQUAL(cluster_link(c, r.links[4])->class, LINK_FABRIC);
    UNIT_ASSERT_NEAR(r.latency_seconds, 4 * 3e-7 + 4 * 5e-7, 1e-12);
    struct route again = must_route(c, 2, 8, 7);
    CU_ASSERT_PTR_EQUAL(r.links, again.links); /* kept */
    cluster_free(c);

    /* the imported matrix lists mlx5_2 first, on the other socket; GPU 0's PIX is mlx5_0 */
    c = must_open(p, "'dgx1v-pytorch-ddp-2'", 16);
    static const char *const nearest[] = {"mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1",
                                          "mlx5_2", "mlx5_2", "mlx5_3", "mlx5_3"};
    for (int gpu = 0; gpu < 8; gpu++) {
        char name[32];
        snprintf(name, sizeof name, "n0.%s.out", nearest[gpu]);
        r = must_route(c, gpu, gpu + 8, 1);
        CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[2])->name, name);
    }
    cluster_free(c);

    /* two NICs are equally near to both GPUs of a switch of a DGX A100: each takes its own */
    c = must_open(p, "'dgx-a100-40gb'", 16);
    for (int gpu = 0; gpu < 8; gpu++) {
        char name[32];
        snprintf(name, sizeof name, "n0.mlx5_%d.out", gpu);
        r = must_route(c, gpu, gpu + 8, 5);
        CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[2])->name, name);
        CU_ASSERT_EQUAL(r.count, 6);
    }
    cluster_free(c);
    platform_close(p);
}

static void test_oversubscription(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p,
                                  "{'node':'dgx-1v-32gb','nodes':4,'oversubscription':3,"
                                  "'fabric':{'type':'fat_tree','leaf_nodes':2,'rails':false}}",
                                  0);
    CU_ASSERT_EQUAL(c->gpu_count, 32);
    struct route r = must_route(c, 0, 8, 0); /* below one leaf */
    CU_ASSERT_EQUAL(r.bytes_per_second, 12e9);
    CU_ASSERT_EQUAL(r.count, 6);
    r = must_route(c, 0, 16, 0);
    CU_ASSERT_EQUAL(r.count, 8);
    UNIT_ASSERT_NEAR(cluster_link(c, r.links[3])->bytes_per_second, 2 * 4 * 12e9 / 3, 1e-12);
    cluster_free(c);
    c = must_open(p, "{'node':'dgx-1v-32gb','nodes':2,'oversubscription':8}", 0);
    CU_ASSERT_TRUE(c->rails && c->fabric == FABRIC_FAT_TREE);
    CU_ASSERT_EQUAL(c->port_bytes_per_second, 12e9);
    r = must_route(c, 0, 15, 0);
    CU_ASSERT_EQUAL(r.bytes_per_second, 2 * 12e9 / 8);
    cluster_free(c);
    /* the type alone; a ring of nodes */
    c = must_open(p, "{'node':'dgx-1v-32gb','nodes':3,'fabric':'ring'}", 0);
    CU_ASSERT_EQUAL(c->fabric, FABRIC_RING);
    r = must_route(c, 0, 16, 0); /* node 2 is node 0's neighbour: one hop */
    CU_ASSERT_EQUAL(r.count, 5);
    CU_ASSERT_EQUAL(r.bytes_per_second, 12e9);
    cluster_free(c);
    /* a slower fabric than the NICs */
    c = must_open(p,
                  "{'node':'hgx-h100','nodes':2,'fabric':{'type':'fat_tree',"
                  "'link_bytes_per_second':5e9,'latency_seconds':1e-6}}",
                  0);
    r = must_route(c, 0, 8, 0);
    CU_ASSERT_EQUAL(r.bytes_per_second, 5e9);
    cluster_free(c);
    platform_close(p);
}

static void test_pure_networks(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'ring-network'", 8);
    CU_ASSERT_EQUAL(c->node_count, 8);
    CU_ASSERT_EQUAL(c->collectives, COLLECTIVES_LINKS);
    CU_ASSERT_EQUAL(c->step_seconds, 1e-8);
    struct route r = must_route(c, 7, 0, 0);
    CU_ASSERT_EQUAL(r.count, 1);
    CU_ASSERT_EQUAL(r.bytes_per_second, 50.0 * 1073741824);
    CU_ASSERT_EQUAL(r.latency_seconds, 5e-7);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[0])->name, "n7.gpu0.next");
    r = must_route(c, 0, 7, 0);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, r.links[0])->name, "n0.gpu0.previous");
    r = must_route(c, 1, 4, 0);
    CU_ASSERT_EQUAL(r.count, 3);
    cluster_free(c);
    c = must_open(p, "'fat-tree-network'", 1024);
    CU_ASSERT_EQUAL(c->gpu_count, 1024);
    r = must_route(c, 3, 4, 0);
    CU_ASSERT_EQUAL(r.count, 4);
    UNIT_ASSERT_NEAR(r.latency_seconds, 2e-6, 1e-12);
    CU_ASSERT_EQUAL(r.bytes_per_second, 25e9);
    r = must_route(c, 2, 3, 0);
    CU_ASSERT_EQUAL(r.count, 2);
    cluster_free(c);
    platform_close(p);
}

static void test_no_peer_access(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'8x4090-ethernet'", 16);
    struct route r = must_route(c, 0, 1, 0);
    CU_ASSERT_EQUAL(r.count, 4);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[1])->class, LINK_MEMORY);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[2])->class, LINK_MEMORY);
    CU_ASSERT_NOT_EQUAL(r.links[1], r.links[2]);
    CU_ASSERT_EQUAL(r.bytes_per_second, 24e9);
    r = must_route(c, 0, 7, 0);
    CU_ASSERT_EQUAL(r.count, 5);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[3])->class, LINK_SOCKET);
    CU_ASSERT_EQUAL(r.bytes_per_second, 10e9);
    r = must_route(c, 0, 8, 0);
    CU_ASSERT_TRUE(r.by_network);
    CU_ASSERT_EQUAL(cluster_link(c, r.links[1])->class, LINK_MEMORY);
    cluster_free(c);
    platform_close(p);
}

static void test_mixed_cluster(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p,
                                  "{'nodes':[{'node':'dgx-1v-32gb','count':2},{'node':'4x3090','"
                                  "count':1},{'node':'hgx-h100'}]}",
                                  30);
    CU_ASSERT_EQUAL(c->node_count, 5);
    CU_ASSERT_EQUAL(c->gpu_count, 36);
    CU_ASSERT_EQUAL(cluster_device_node(c, 15), 1);
    CU_ASSERT_EQUAL(cluster_device_node(c, 16), 2);
    CU_ASSERT_EQUAL(cluster_device_node(c, 19), 2);
    CU_ASSERT_EQUAL(cluster_device_node(c, 20), 3);
    CU_ASSERT_EQUAL(cluster_device_node(c, cluster_host_device(c, 4)), 4);
    CU_ASSERT_STRING_EQUAL(cluster_device_model(c, 17)->name, "rtx-3090");
    CU_ASSERT_STRING_EQUAL(cluster_device_model(c, 35)->name, "h100-sxm5-80gb");
    struct route r = must_route(c, 0, 17, 0);
    CU_ASSERT_EQUAL(r.bytes_per_second, 3e9);
    /* every link has a name of its own and every number a link */
    int links = cluster_link_count(c);
    const char **names = memory_new_array((size_t)links, sizeof *names);
    int twice = 0;
    for (int i = 0; i < links; i++) {
        names[i] = cluster_link(c, i)->name;
        CU_ASSERT_TRUE(cluster_link(c, i)->bytes_per_second > 0);
        for (int j = 0; j < i; j++)
            twice += strcmp(names[i], names[j]) == 0;
    }
    CU_ASSERT_EQUAL(twice, 0);
    free(names);
    cluster_free(c);
    platform_close(p);
}

static void test_routes_join(void)
{
    /* the links of every route follow each other: ends are in the names "n0.a-b.up" */
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'8x4090-ethernet'", 16);
    for (int from = 0; from < c->gpu_count + c->node_count; from++) {
        for (int to = 0; to < c->gpu_count + c->node_count; to++) {
            struct route r = must_route(c, from, to, 0);
            double latency = 0;
            double least = HUGE_VAL;
            for (int i = 0; i < r.count; i++) {
                const struct directed_link *link = cluster_link(c, r.links[i]);
                latency += link->latency_seconds;
                least = fmin(least, link->bytes_per_second);
                for (int j = 0; j < i; j++)
                    CU_ASSERT_NOT_EQUAL(r.links[i], r.links[j]);
            }
            UNIT_ASSERT_NEAR(latency, r.latency_seconds, 1e-9);
            CU_ASSERT_EQUAL(least, r.bytes_per_second);
            CU_ASSERT_EQUAL(r.count == 0, from == to);
        }
    }
    cluster_free(c);
    platform_close(p);
}

static void test_large_cluster(void)
{
    struct platform *p = open_platform();
    struct cluster *c = must_open(p, "'fat-tree-h100'", 16384);
    CU_ASSERT_EQUAL(c->node_count, 2048);
    CU_ASSERT_PTR_EQUAL(c->nodes[0], c->nodes[2047]);
    int network = 0;
    for (int channel = 0; channel < 8; channel++)
        for (int i = 0; i < c->gpu_count; i++)
            network += must_route(c, i, (i + 1) % c->gpu_count, channel).by_network;
    CU_ASSERT_EQUAL(network, 8 * 2048);
    CU_ASSERT_STRING_EQUAL(cluster_link(c, cluster_link_count(c) - 1)->name, "leaf511.down");
    cluster_free(c);
    platform_close(p);
}

static void test_refusals(void)
{
    struct platform *p = open_platform();
    refuses(p, "'dgx-1w'", 8, "did you mean 'dgx-1v'");
    refuses(p, "{'node':'dgx-1v-32gb','nodes':2}", 24, "24 devices are asked for");
    refuses(p, "{'node':'dgx-1v-32gb','nodes':2}", 24, "has 16");
    refuses(p, "{'node':'dgx-1v-32gb','node_count':2}", 8, "unknown key 'node_count'");
    refuses(p, "{'node':'dgx-1v-32gb','oversubscripton':2}", 8, "did you mean 'oversubscription'");
    refuses(p, "{'node':'dgx-1v-32gb','fabric':{'type':'fattree'}}", 8, "did you mean 'fat_tree'");
    refuses(p, "{'node':'dgx-1v-32gb','fabric':'fat-tree'}", 8, "did you mean 'fat_tree'");
    refuses(p, "{'node':'dgx-1v-32gb','fabric':7}", 8, "an object is expected");
    refuses(p, "{'node':'dgx-1v-32gb','nodes':2,'fabric':{'type':'none'}}", 8,
            "2 nodes are asked for; without a fabric there is 1");
    refuses(p, "{'node':'network-endpoint','nodes':2}", 1, "has no NIC");
    refuses(p, "{'node':'network-endpoint','nodes':2,'collectives':'links'}", 1,
            "needs 'link_bytes_per_second'");
    refuses(p, "{'node':'dgx-1v-32gb','step_seconds':1e-6}", 1, "\"links\" only");
    refuses(p, "{'node':'dgx-1v-32gb','oversubscription':0.5}", 1, "between 1 and");
    refuses(p, "{'nodes':[{'node':'4x3090'},{'node':'dgx-1v-32gb'}]}", 1, "at most 1");
    refuses(p, "{'nodes':[]}", 1, "empty");
    refuses(p, "{}", 1, "key 'node' is missing");
    refuses(p, "7", 1, "must be a name or an object");
    refuses(p, "'nowhere/x.json'", 1, "cannot read 'nowhere/x.json'");
    platform_close(p);
}

/* A node's text with one thing wrong, read through a file. */
static void refuses_node(const char *text, const char *part)
{
    char path[] = "/tmp/rehearse-node-XXXXXX.json";
    int handle = mkstemps(path, 5);
    CU_ASSERT_TRUE_FATAL(handle >= 0);
    FILE *file = fdopen(handle, "w");
    for (const char *c = text; *c; c++)
        fputc(*c == '\'' ? '"' : *c, file);
    fclose(file);
    struct platform *p = open_platform();
    const struct node_model *node = NULL;
    CU_ASSERT_EQUAL(platform_node(p, path, &node), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), part);
    unlink(path);
    platform_close(p);
}

#define NODE_START "{'name':'n','source':'s','host':'generic-host','gpu':'rtx-3090','vertices':["
#define NODE_PARTS "{'name':'g','kind':'gpu'},{'name':'h','kind':'host'},{'name':'c','kind':'cpu'}"
#define NODE_LINK(a, b, class)                                                                     \
    "{'a':'" a "','b':'" b "','class':'" class "','bytes_per_second':1e9,'latency_seconds':0}"

static void test_damaged_nodes(void)
{
    refuses_node("{", "is not JSON");
    refuses_node("{'name':'n','source':'s','hots':'x'}", "did you mean 'host'");
    refuses_node(NODE_START NODE_PARTS "],'links':[" NODE_LINK("h", "c", "memory") "]}",
                 "no links lead from 'g' to 'h'");
    refuses_node(NODE_START NODE_PARTS "],'links':[" NODE_LINK("g", "h", "PCIe") "]}",
                 "cpu 'c' has no link to the host 'h'");
    refuses_node(NODE_START NODE_PARTS "],'links':[" NODE_LINK("g", "cc", "PCIe") "]}",
                 "unknown vertex 'cc'");
    refuses_node(NODE_START NODE_PARTS "],'links':[" NODE_LINK("g", "c", "PCI") "]}",
                 "did you mean 'PCIe'");
    refuses_node(NODE_START NODE_PARTS
                 "],'links':[" NODE_LINK("g", "c", "PCIe") "," NODE_LINK("c", "g", "PCIe") "]}",
                 "given twice");
    refuses_node(NODE_START NODE_PARTS "," NODE_PARTS
                                       "],'links':[" NODE_LINK("g", "c", "PCIe") "]}",
                 "vertex 'g' is given twice");
    refuses_node(NODE_START "{'name':'g','kind':'gpu'}],'links':[" NODE_LINK("g", "g", "PCIe") "]}",
                 "0 vertices are of kind 'host'");
    refuses_node(NODE_START "{'name':'m','kind':'nic'}],'links':[{}]}",
                 "'bytes_per_second' is missing");
    refuses_node(NODE_START "{'name':'g','kind':'gpu','device':'generic-host'}],'links':[{}]}",
                 "is a host, not a GPU");
}

/* A device's file, with one text of it replaced, and what is said about it. */
static void refuses_device(const char *from, const char *to, const char *part)
{
    char path[] = "/tmp/rehearse-device-XXXXXX.json";
    size_t bytes = 0;
    char *text = text_read_file(unit_source("platforms/devices/v100-sxm2-32gb.json"), &bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    char *at = strstr(text, from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    int handle = mkstemps(path, 5);
    CU_ASSERT_TRUE_FATAL(handle >= 0);
    FILE *file = fdopen(handle, "w");
    fprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(file);
    free(text);
    struct platform *p = open_platform();
    const struct device_model *device = NULL;
    CU_ASSERT_EQUAL(platform_device(p, path, &device), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), part);
    unlink(path);
    platform_close(p);
}

static void test_damaged_devices(void)
{
    refuses_device("\"workspace_bytes\"", "\"workspace\"", "unknown key 'workspace'");
    refuses_device("\"workspace_bytes\": {\"convolution\": 268435456, \"matmul\": 4194304},", "",
                   "key 'workspace_bytes' is missing");
    refuses_device(", \"matmul\": 4194304", "", "workspace_bytes: key 'matmul' is missing");
    refuses_device("\"convolution\": 268435456", "\"convolution\": -1", "workspace_bytes");
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"every file loads", test_every_file, NULL},
        {"devices", test_devices, NULL},
        {"damaged devices", test_damaged_devices, NULL},
        {"routes on a hybrid cube mesh", test_cube_mesh_routes, NULL},
        {"routes over NVSwitch", test_switch_routes, NULL},
        {"routes over a fat tree with rails", test_network_routes, NULL},
        {"oversubscription", test_oversubscription, NULL},
        {"pure networks", test_pure_networks, NULL},
        {"no peer access", test_no_peer_access, NULL},
        {"mixed cluster", test_mixed_cluster, NULL},
        {"routes are whole", test_routes_join, NULL},
        {"16,384 GPUs", test_large_cluster, NULL},
        {"refusals", test_refusals, NULL},
        {"damaged nodes", test_damaged_nodes, NULL},
    };
    return UNIT_MAIN("platform", tests);
}
